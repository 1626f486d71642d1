"""Modules that programs import for what this machine does not have, or for an option that few runs use."""

import brisk
import pytest


def test_there_is_no_accelerator_and_programs_are_told_so():
    assert not brisk.accelerator.is_available()
    assert brisk.accelerator.device_count() == 0
    assert brisk.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="none is available"):
        brisk.accelerator.synchronize()


def test_onnx_can_be_imported_and_its_export_says_that_it_is_not_there():
    import brisk.onnx

    with pytest.raises(NotImplementedError, match="torch.onnx.export"):
        brisk.onnx.export(None)
