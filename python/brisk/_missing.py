"""What is not there says so, and names what is near it."""


def finder(namespace, elsewhere=()):
    """A module's __getattr__: names that stand in another module, and an error for all others.

    elsewhere: {name: module}; a name found there is kept, so that it is looked up once."""
    table = dict(elsewhere)

    def __getattr__(name):
        import importlib
        import sys

        if name in table:
            value = getattr(importlib.import_module(table[name]), name)
            setattr(sys.modules[namespace], name, value)
            return value
        raise AttributeError(_text(namespace, name, sys.modules[namespace], table))

    return __getattr__


def _text(namespace, name, module, table):
    text = f"module '{namespace}' has no attribute '{name}'"
    if name.startswith("_"):
        return text
    import difflib

    public = [n for n in (*vars(module), *table) if not n.startswith("_")]
    near = difflib.get_close_matches(name, public, 3, 0.7)
    return f"{text}; near it are: {', '.join(near)}" if near else f"{text}; docs/COVERAGE.md lists what is there"
