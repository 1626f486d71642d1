"""PyTorch's places: a module that holds what PyTorch keeps in several is found under each of their names."""

import sys


def also_at(package, places):
    """places: {module: the names, separated by blanks, that it has in the package besides its own}"""
    for module, names in places.items():
        for name in names.split():
            sys.modules[f"{package}.{name}"] = module
            setattr(sys.modules[package], name, module)
