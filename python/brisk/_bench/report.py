"""What was measured, as a table: on the terminal (with rich where it is installed) and as Markdown."""

TITLES = {
    "torch": "PyTorch",
    "forward": "forward alone",
    "layer": "own layer",
    "first": "first call",
    "process": "first call of a process",
    "numpy": "NumPy",
    "compile": "torch.compile",
    "jax": "JAX",
}


def columns(results):
    return [name for name in TITLES if any(name in r["ratios"] or name in r["errors"] for r in results)]


def cell(result, library):
    """A ratio with two or three digits, after a ~ when it is noisy, before a ° when the cores were far apart; nothing
    where the case has no twin."""
    if library in result["errors"] or "brisk" in result["errors"]:
        return "failed"
    if library not in result["ratios"]:
        return ""
    ratio = result["ratios"][library]
    text = f"{ratio:.0f}x" if ratio >= 20 else f"{ratio:.1f}x" if ratio >= 3 else f"{ratio:.2f}x"
    return ("~" if result["noisy"] else "") + text + ("°" if result["far"] else "")


def table(results):
    """Header and rows of text."""
    libraries = columns(results)
    header = ["case", "what", "target", *(f"vs {TITLES[name]}" for name in libraries)]
    rows = [
        [r["name"], r["shows"].replace("`", ""), f"{r['target']}x", *(cell(r, name) for name in libraries)]
        for r in results
    ]
    return header, rows


def show(facts, results):
    header, rows = table(results)
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        for row in [header, *rows]:
            left, right = row[:2], row[2:]
            cells = [text.ljust(w) for text, w in zip(left, widths, strict=False)]
            cells += [text.rjust(w) for text, w in zip(right, widths[2:], strict=True)]
            print("  ".join(cells).rstrip())
    else:
        view = Table(title="their time / ours; above 1 brisk is faster")
        for i, title in enumerate(header):
            view.add_column(title, justify="left" if i < 2 else "right")
        for row in rows:
            view.add_row(*map(Text, row))  # a Text is not searched for markup, which `a[i, j]` would be taken for
        Console().print(view)
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    if any(result["noisy"] for result in results):
        print("~ is no evidence: the rounds disagreed, or other programs were busy on the machine")
    if any(result["far"] for result in results):
        print("° was measured while the two cores were far apart: a message took several times as long as else")
    for result in results:
        for library, error in result["errors"].items():
            print(f"{result['name']}, {library}: {error}")


def markdown(facts, results):
    header, rows = table(results)
    for row, result in zip(rows, results, strict=True):
        row[1] = result["shows"]
    lines = [
        "# Benchmarks",
        "",
        "Written by `brisk bench --write docs/BENCHMARKS.md`. Figures are ratios, their time divided by ours: above",
        "1 brisk is faster. Each library runs in a process of its own; the processes take turns, and the lower",
        f"quartile of the rounds counts. All use {facts['threads']} threads. Results are forced inside the timed",
        "region and compared. Four columns are brisk beside itself: the forward pass alone, the layer that does what",
        "a loop does, a first call, before which all plans were forgotten, and one in a process that has just begun.",
        "`target` is the ratio against PyTorch that we aim at, also where we miss it. A `~` marks a ratio that is no",
        "evidence: rounds disagreed, or other programs were busy on the machine, which slows the libraries unequally.",
        "A `°` marks one that was taken while the system had the two cores far apart: a message from one to the other",
        "took several times as long as else.",
        "",
        "The machine: " + ", ".join(f"{name} {value}" for name, value in facts.items() if name != "threads") + ".",
        "",
        "| " + " | ".join(header) + " |",
        "|---|---|" + "---:|" * (len(header) - 2),
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
