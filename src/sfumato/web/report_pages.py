"""The pages of the report reader: the reports there are, and one report as its address says. In a worker thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.responses import JSONResponse, RedirectResponse, Response

from sfumato.errors import EngineFailed, Failed, InvalidArgument, LedgerFailed, NotFound, NotSupported
from sfumato.problems import problem
from sfumato.query.reports.calendar import ALL
from sfumato.query.reports.policy import OPTIONS
from sfumato.service.media import CSV
from sfumato.show import Chart, Sheet, key_label, report_chart, visible
from sfumato.web import report_numbers, report_view
from sfumato.web.frame import PageCall
from sfumato.web.rendering import HEADERS, NARROW, WIDE, download, picture
from sfumato.web.report_tree import EntityTree, find_nodes, read_tree
from sfumato.web.report_view import ReportView, complete_view, list_ranges, read_view
from sfumato.wire import Me, Report, ReportInfo
from sfumato.wire import notes as codes

MAX_CELLS, MAX_PICTURE, MAX_BARS = 800, 60_000, 40
"""Of the table and of the pictures of a page, in characters: no page is above 150 KB. Files have all."""


def show_reports(call: PageCall) -> Response:
    """The reports there are, in words."""
    session = call.session
    me = session.me(call.analyst, role=call.caller.principal.role)
    described = [session.describe_report(name, analyst=call.analyst) for name in me.reports]
    return call.page(
        "reports.html",
        "Reports",
        here="/reports",
        reports=[
            {
                "info": info,
                "address": ReportView(info.report).path if _is_open(info, me) else "",
                "steps": [report_view.describe_step(level) for level in info.levels],
                "complete": report_view.describe_complete(info),
            }
            for info in described
        ],
    )


def _is_open(info: ReportInfo, me: Me) -> bool:
    """Whether a report can be looked at: one about all rows is not for readers of some entities."""
    return bool(info.entities) or me.entities is None


def show_report(call: PageCall) -> Response:
    """The numbers of a view. An address that leaves something open leads to one that does not."""
    info, view = _read(call)
    whole = _choose_entity(call, complete_view(view, info), info)
    tree = read_tree(call.session, call.analyst, whole, info)
    if not view.is_whole or whole.entity != view.entity:
        return RedirectResponse(whole.address, 303, HEADERS)
    if info.entities and not view.entity:
        return _report_page(call, view, info, tree)
    try:
        report, totals = _query(call, view, info)
    except (NotSupported, InvalidArgument) as error:
        return _refused_page(call, view, info, tree, error)
    except (EngineFailed, LedgerFailed, Failed) as error:
        call.record.problem = "failed"
        return _report_page(call, view, info, tree, status=503, failed=problem(error).detail)
    return _report_page(call, view, info, tree, numbers=_describe_numbers(view, info, report, totals))


def _read(call: PageCall) -> tuple[ReportInfo, ReportView]:
    """The report of a path, and the view that the query asks for. Raises `NotFound` where it is not hers."""
    name = str(call.request.path_params["name"])
    info = call.session.describe_report(name, analyst=call.analyst)
    if not _is_open(info, call.session.me(call.analyst)):
        raise NotFound("")
    return info, read_view(name, call.request.query_params)


def _choose_entity(call: PageCall, view: ReportView, info: ReportInfo) -> ReportView:
    """The view of the only topmost entity, where there is one and none was chosen."""
    if not info.entities or view.entity:
        return view
    rows = call.session.entities(view.report, analyst=call.analyst, rows=2).rows
    return replace(view, entity=tuple(rows[0].entity.values())) if len(rows) == 1 else view


def _query(call: PageCall, view: ReportView, info: ReportInfo) -> tuple[Report, Report]:
    """The numbers of a view, and the totals of its range."""
    report = call.calls.query_report(call.caller, view.question(info))
    whole = replace(view, step=ALL, by="", top="")
    return report, report if whole == view else call.calls.query_report(call.caller, whole.question(info))


def _describe_numbers(view: ReportView, info: ReportInfo, report: Report, totals: Report) -> dict[str, Any]:
    rows = report_numbers.list_rows(report, info, ranked=bool(view.top))
    reasons = {number.reason for row in rows for number in row.numbers}
    sheet, chart = _draw(report)
    is_open = report.complete_until < report.end
    complete = report_view.write_moment(report.complete_until)
    return {
        "report": report,
        "totals": [*report_numbers.list_totals(totals, info.follows)],
        "totals_notes": [] if totals is report else [note for note in totals.notes if note not in report.notes],
        "pictures": _fit_pictures(chart),
        "range": f"{sheet.range}, in {report_view.place_name(report.zone)}",
        "over_time": sheet.over_time,
        "about": sheet.about(len(sheet.keys) if sheet.over_time else 0),
        "drawn": len(sheet.rows) if len(sheet.rows) < len(report.rows) else 0,
        "rows": [
            (report_numbers.describe_when(row, report), row)
            for row in rows[: MAX_CELLS // (len(report.statistics) + 1)]
        ],
        "row_count": len(rows),
        "legend": {
            reason: words
            for reason, words in report_numbers.describe_reasons(report, info).items()
            if reason in reasons
        },
        "is_open": is_open,
        "complete_view": replace(view, end=complete).address if is_open else "",
        "may_change": report.has_note(codes.MAY_CHANGE),
        "differs": bool(view.by) or view.step != ALL,
        "files": {name: f"{view.path}/{name}?{view.query}" for name in ("numbers.csv", "picture.svg")},
    }


def _fit_pictures(chart: Chart) -> list[Markup]:
    """The picture for wide paper and for narrow, or one for both. None where it has too many points for a page."""
    drawn = [chart.to_page_svg(width=width, classes=(name,)) for width, name in ((WIDE, "wide"), (NARROW, "narrow"))]
    if sum(map(len, drawn)) > MAX_PICTURE:
        drawn = [chart.to_page_svg(width=WIDE)]
    return [picture(svg) for svg in drawn if len(svg) <= MAX_PICTURE]


def _draw(report: Report) -> tuple[Sheet, Chart]:
    """The numbers as a picture. Of many bars at once, the largest are drawn."""
    sheet = report.sheet()
    if not sheet.over_time and sheet.by is not None:
        sheet = replace(sheet, rows=sheet.rows[:MAX_BARS])
    return sheet, report_chart(sheet, title="")


def _refused_page(
    call: PageCall, view: ReportView, info: ReportInfo, tree: EntityTree, error: NotSupported | InvalidArgument
) -> Response:
    """What was refused, why, and the views that are possible instead. Nothing was read."""
    found = problem(error)
    call.record.problem = found.type.rpartition("/")[2]
    others = [view.changed(question) for question in getattr(error, "instead", ())]
    others = [complete_view(other, info) for other in others]
    refusal = {
        "words": found.detail,
        "ways": [(report_view.describe_change(view, other), other.address) for other in others],
    }
    return _report_page(call, view, info, tree, status=found.status, refusal=refusal)


def _report_page(
    call: PageCall,
    view: ReportView,
    info: ReportInfo,
    tree: EntityTree,
    *,
    status: int = 200,
    numbers: Mapping[str, Any] | None = None,
    refusal: Mapping[str, Any] | None = None,
    failed: str = "",
) -> Response:
    with_time = info.levels[0][:1].isdigit()
    find = call.request.query_params.get("find", "").strip()
    return call.page(
        "report.html",
        f"Report {visible(view.report)}" if not (refusal or failed) else "Refused" if refusal else "Not answered",
        status,
        here="/reports",
        view=view,
        info=info,
        tree=tree,
        find=find,
        found=find_nodes(call.session, call.analyst, view, find),
        numbers=numbers,
        refusal=refusal,
        failed=failed,
        request_id=call.record.request_id,
        complete=report_view.describe_complete(info),
        field="datetime-local" if with_time else "date",
        start=report_view.fill_input(view.start, with_time=with_time),
        end=report_view.fill_input(view.end, with_time=with_time),
        ranges=[(each.name, replace(view, start=each.start, end=each.end)) for each in list_ranges(info)],
        steps={level: report_view.describe_step(level) for level in (ALL, *info.levels)},
        options={name: OPTIONS[name] for name in OPTIONS if name in (*info.options, *(view.options or ()))},
        reasons=report_numbers.REASONS,
    )


def find_entities(call: PageCall) -> Response:
    """What type-ahead offers: her entities whose names begin with a text, with the address of the view of each."""
    info, view = _read(call)
    found = find_nodes(call.session, call.analyst, complete_view(view, info), call.request.query_params.get("find", ""))
    rows = [
        {"level": node.level, "name": key_label(node.name), "above": visible(above), "address": node.address}
        for above, node in found
    ]
    return JSONResponse({"rows": rows}, headers=HEADERS)


def save_report(call: PageCall) -> Response:
    """The numbers as CSV, or the picture as SVG."""
    file = call.request.path_params["file"]
    info, view = _read(call)
    whole = complete_view(view, info)
    read_tree(call.session, call.analyst, whole, info)
    if file not in ("numbers.csv", "picture.svg"):
        raise NotFound("")
    report = call.calls.query_report(call.caller, whole.question(info))
    if file == "numbers.csv":
        content = report_numbers.write_numbers(report, info, ranked=bool(view.top))
        return download(content, "report.csv", CSV)
    return download(_draw(report)[1].to_svg(), "report.svg", "image/svg+xml")
