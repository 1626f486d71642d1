"""ONNX files, which brisk does not write: programs import this module for an option that few of their runs use."""

__all__ = ["export", "is_in_onnx_export"]


def export(*args, **kwargs):
    """Refused: brisk writes no ONNX files."""
    raise NotImplementedError("torch.onnx.export is not there; torch.save writes a checkpoint that PyTorch can export")


def is_in_onnx_export():
    """False: nothing is ever exported."""
    return False
