"""Colours and patterns of a picture: JupyterLab's own where there are any, else light or dark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Name -> JupyterLab's variable, and what stands in for it in light and in dark.
_COLOURS: Final[Mapping[str, tuple[str, str, str]]] = {
    "page": ("--jp-layout-color0", "#ffffff", "#0d1117"),
    "tint": ("--jp-layout-color2", "#f3f4f6", "#1c2128"),
    "text": ("--jp-ui-font-color1", "#1f2328", "#e6edf3"),
    "faint": ("--jp-ui-font-color2", "#57606a", "#9198a1"),
    "line": ("--jp-border-color2", "#d0d7de", "#3d444d"),
    "done": ("--jp-success-color1", "#1a7f37", "#3fb950"),
    "unknown": ("--jp-warn-color1", "#b45309", "#f0a429"),
    "failed": ("--jp-error-color1", "#cf222e", "#f85149"),
    "live": ("--jp-brand-color1", "#0969da", "#4493f8"),
}


def _variables(which: int) -> str:
    return "".join(
        f"--dnb-t-{name}:var({found[0]},{found[which]});" for name, found in _COLOURS.items()
    )


#: What each class looks like. Colour is never the only sign: see `patterns`.
_RULES: Final = """
text{fill:var(--dnb-t-text);font:11px system-ui,-apple-system,'Segoe UI',sans-serif}
.h{font-weight:600;font-size:13px}.f{fill:var(--dnb-t-faint)}.m{font-family:ui-monospace,monospace}
.page{fill:var(--dnb-t-page)}.band{fill:var(--dnb-t-tint)}.line{stroke:var(--dnb-t-line)}
.done{fill:var(--dnb-t-done);stroke:none;shape-rendering:crispEdges}.pale{fill:var(--dnb-t-done);opacity:.32}
.live{fill:var(--dnb-t-live)}
.failed{fill:var(--dnb-t-page);stroke:var(--dnb-t-failed);stroke-width:1.3}
.cut{fill:var(--dnb-t-page);stroke:var(--dnb-t-failed);stroke-width:1.3;stroke-dasharray:3 2}
.settled{fill:var(--dnb-t-page);stroke:var(--dnb-t-done);stroke-width:1.3;stroke-dasharray:3 2}
.unknown{stroke:var(--dnb-t-unknown);stroke-width:1.6}
.waits{stroke:var(--dnb-t-faint)}
.q{fill:color-mix(in srgb,var(--dnb-t-unknown) 55%,var(--dnb-t-text));
font-weight:800;font-size:13px}
.kill{stroke:var(--dnb-t-failed);stroke-width:1.4;stroke-dasharray:4 3}
.cross{stroke:var(--dnb-t-failed);stroke-width:2.2;fill:none}
.shut{fill:var(--dnb-t-faint)}.verdict{fill:var(--dnb-t-page);stroke:var(--dnb-t-text)}
.over{pointer-events:none;paint-order:stroke;stroke:var(--dnb-t-page);stroke-width:4px}
.replay{fill:var(--dnb-t-done);opacity:.16}
a:hover rect{stroke:var(--dnb-t-text);stroke-width:2}a{cursor:pointer}
g:target>text{font-weight:700;text-decoration:underline}
"""


def style() -> str:
    """Give the style sheet, which holds for this kind of picture only."""
    scope = ".dnb-timeline"
    rules = "".join(
        f"{scope} {rule.strip()}}}\n"
        for rule in _RULES.replace("\n", "").split("}")
        if rule.strip()
    )
    return (
        f"<style>{scope}{{color-scheme:light dark;{_variables(1)}}}\n"
        f"@media (prefers-color-scheme:dark){{{scope}{{{_variables(2)}}}}}\n{rules}</style>"
    )


def patterns(tag: str) -> str:
    """Give the patterns, whose names are this picture's own: a page may hold several.

    Parameters
    ----------
    tag : str
        Tells the pictures of a page apart.
    """
    return (
        "<defs>"
        f'<pattern id="u-{tag}" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" fill="var(--dnb-t-page)"/>'
        '<rect width="3" height="6" fill="var(--dnb-t-unknown)"/></pattern>'
        f'<pattern id="w-{tag}" width="4" height="4" patternUnits="userSpaceOnUse">'
        '<rect width="4" height="4" fill="var(--dnb-t-page)"/>'
        '<circle cx="2" cy="2" r="0.9" fill="var(--dnb-t-faint)"/></pattern>'
        f'<pattern id="g-{tag}" width="8" height="8" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(-45)"><rect width="8" height="8" fill="var(--dnb-t-page)"/>'
        '<rect width="1" height="8" fill="var(--dnb-t-line)"/></pattern>'
        "</defs>"
    )
