"""Panels, variables and links as the dashboards of this directory use them, on the builders of Grafana's SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE: Final = models.DataSourceRef("prometheus", "${datasource}")
TAG: Final = "ktrain"
GREEN, AMBER, RED = "green", "orange", "red"
STAT_HEIGHT, HEIGHT = 4, 8
BASE: Final = models.Threshold(None, GREEN)


class Query(NamedTuple):
    """A query in PromQL, and the name of its series with labels in double braces."""

    expr: str
    legend: str = ""


Steps = tuple[tuple[float, str], ...]
"""Values from which a panel has another color, rising."""


def graph(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    span: int = 8,
    stacked: bool = False,
    line_at: Steps = (),
) -> timeseries.Panel:
    """Series over time; `line_at` draws dashed lines at these values."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .span(span)
        .height(HEIGHT)
        .min(0)
        .line_width(1)
        .fill_opacity(25 if stacked else 8)
        .show_points(common_models.VisibilityMode.NEVER)
        .legend(common.VizLegendOptions().show_legend(show_legend=True).placement(common_models.LegendPlacement.BOTTOM))
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
        .thresholds(_thresholds(line_at))
    )
    if line_at:
        style = common_models.GraphTresholdsStyleMode.DASHED
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(style))
    if stacked:
        panel.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL))
    for ref, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_target(ref, query).range())
    return panel


def number(
    title: str, description: str, query: Query, *, unit: str = "short", span: int = 4, from_: Steps = ()
) -> stat.Panel:
    """One number as it is now, above its course; colored from the values of `from_` on."""
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False)
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .span(span)
        .height(STAT_HEIGHT)
        .graph_mode(common_models.BigValueGraphMode.AREA)
        .reduce_options(reduce)
        .thresholds(_thresholds(from_))
        .with_target(_target("A", query).range())
    )
    # Increases of counters are extrapolated, and not whole.
    return panel.decimals(0) if unit == "short" else panel


def listing(
    title: str,
    description: str,
    *queries: Query,
    names: dict[str, str],
    unit: str = "short",
    span: int = 12,
) -> table.Panel:
    """A table of the series as they are now; `names` are the labels that become columns, and their headings."""
    order = {name: place for place, name in enumerate(names)}
    hidden = {"Time": True, "__name__": True}
    organize = {"excludeByName": hidden, "renameByName": names, "indexByName": order}
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .span(span)
        .height(HEIGHT)
        .with_transformation(models.DataTransformerConfig("merge", options={}))
        .with_transformation(models.DataTransformerConfig("organize", options=organize))
    )
    for ref, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_target(ref, query).instant().format(PromQueryFormat.TABLE))
    return panel.decimals(0) if unit == "short" else panel


def quantiles(histogram: str, by: str = "", *, selector: str = "") -> tuple[Query, ...]:
    """Queries for the median, the 90th and the 99th percentile of a histogram, for each value of the label `by`."""
    group, name = (f"le, {by}", f" {{{{{by}}}}}") if by else ("le", "")
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by ({group}) (rate({histogram}_bucket{{{selector}}}[$__rate_interval])))",
            f"p{round(share * 100)}{name}",
        )
        for share in (0.5, 0.9, 0.99)
    )


def board(uid: str, title: str, description: str, variables: Sequence[dashboard.QueryVariable]) -> dashboard.Dashboard:
    """An empty dashboard that chooses a data source first, with links to the others of ktrain."""
    links = dashboard.DashboardLink("ktrain").type(models.DashboardLinkType.DASHBOARDS).tags([TAG])
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(links.as_dropdown(as_dropdown=False).keep_time(keep_time=True).include_vars(include_vars=True))
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in variables:
        made.with_variable(variable)
    return made


def variable(name: str, label: str, query: str, description: str, *, several: bool = True) -> dashboard.QueryVariable:
    """A choice among the values of a label, of all and several of them or of one."""
    made = (
        dashboard.QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
    if several:
        made.multi(multi=True).include_all(include_all=True)
        made.current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return made


def _target(ref: str, query: Query) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(ref).datasource(SOURCE).expr(query.expr)
    return target.legend_format(query.legend) if query.legend else target


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    colors = [BASE, *(models.Threshold(value, color) for value, color in steps)]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(colors)
