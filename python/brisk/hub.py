"""Models from the network: brisk fetches nothing, and says so."""

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_directory = None


def _refuse(name):
    def refuse(*args, **kwargs):
        raise RuntimeError(
            f"torch.hub.{name} is not there: brisk does not use the network. Download the checkpoint yourself and "
            "read it with torch.load, or the repository and import it"
        )

    refuse.__name__ = name
    refuse.__doc__ = "Refused: brisk does not use the network."
    return refuse


download_url_to_file = _refuse("download_url_to_file")
help = _refuse("help")
list = _refuse("list")
load = _refuse("load")
load_state_dict_from_url = _refuse("load_state_dict_from_url")


def get_dir():
    """Where downloads would be kept."""
    import os

    return _directory or os.path.join(os.path.expanduser("~"), ".cache", "torch", "hub")


def set_dir(d):
    """Where downloads would be kept from now on."""
    global _directory
    _directory = d
