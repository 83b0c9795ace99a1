"""Pictures of releases: PNG, PDF, SVG, and a page that can be explored."""

from veilstream.release.plot_options import MOST_PANELS, MOST_ROWS, PlotOptions
from veilstream.release.plots.picture import SUFFIXES, bins_drawn, plot_quantiles, plot_releases
from veilstream.release.plots.style import BAND, INK, LINE, STYLE, TRUTH

__all__ = [
    "BAND",
    "INK",
    "LINE",
    "MOST_PANELS",
    "MOST_ROWS",
    "STYLE",
    "SUFFIXES",
    "TRUTH",
    "PlotOptions",
    "bins_drawn",
    "plot_quantiles",
    "plot_releases",
]
