"""CronJobs: stored and validated; nothing here starts their Jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.batch.policies import default_failure_policy
from ktrain.local.apiserver.builtins.batch.validation import validate_template_spec
from ktrain.local.apiserver.builtins.pods.warnings import warn_of_template
from ktrain.local.apiserver.builtins.workloads.templates import default_template, warn_of_name
from ktrain.local.apiserver.numbers import NumberError, parse_signed
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_POLICIES: Final = ("Allow", "Forbid", "Replace")
_NAMED: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS: Final = {
    name: n
    for n, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_DAYS: Final = {name: n for n, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_NAME_LIMIT: Final = 52
"""A Job's name adds eleven characters, and must be a label."""


_ZONED: Final = re.compile(r"(?:CRON_)?TZ=(\S*) ")
_PAUSE: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*(ns|us|µs|ms|s|m|h))+")
_UNKNOWN_UNIT: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*(?:ns|us|µs|ms|s|m|h))*[0-9]+\.?[0-9]*([^0-9.]+).*")


class CronJobStrategy(Strategy):
    """CronJobs."""

    def default(self, obj: Json) -> None:
        """Fill in the schedule's options and the pod template; the Job's own fields are filled in when it is made."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        default_template(template.setdefault("spec", {}))
        default_failure_policy(template["spec"])
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start with nothing run."""
        obj["status"] = {}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check schedule, policy and template."""
        spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
        found = list(_validate_schedule(spec))
        found += causes.non_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
        if (policy := spec.get("concurrencyPolicy")) not in _POLICIES:
            found.append(causes.not_supported("spec.concurrencyPolicy", policy, _POLICIES))
        for limit in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            found += causes.non_negative(f"spec.{limit}", spec.get(limit))
        found += _validate_job((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
        if len(name) > _NAME_LIMIT:
            found.append(causes.invalid("metadata.name", name, f"must be no more than {_NAME_LIMIT} characters"))
        return found

    def warn(self, obj: Json) -> Sequence[str]:
        """Warn of the name and of the template of pods."""
        template = obj["spec"]["jobTemplate"]["spec"]["template"]
        return [*warn_of_name(obj), *warn_of_template(template, "spec.jobTemplate.spec.template")]


def _validate_job(spec: Json, field: str) -> Iterator[Cause]:
    yield from validate_template_spec(spec, field)
    if manual := spec.get("manualSelector"):
        yield causes.not_supported(f"{field}.manualSelector", manual, ["nil", "false"])
    if (selector := spec.get("selector")) is not None:
        yield causes.invalid(f"{field}.selector", selector, "`selector` will be auto-generated")


def _validate_schedule(spec: Json) -> Iterator[Cause]:
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    if not schedule:
        yield causes.required("spec.schedule")
    elif "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield causes.invalid("spec.schedule", schedule, detail)
    if schedule and (problem := schedule_error(schedule)):
        yield causes.invalid("spec.schedule", schedule, problem)
    if zone == "":
        yield causes.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone is not None and zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield causes.invalid("spec.timeZone", zone, detail)
    if zone and zone != "Local" and not _is_zone(zone):
        yield causes.invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return name.lower() != "local"


def schedule_error(schedule: str) -> str:
    """Return the scheduler's complaint about a schedule in cron's form, or nothing."""
    if zoned := _ZONED.match(schedule):
        if not _is_zone(zoned[1]):
            return f"provided bad location {zoned[1]}: unknown time zone {zoned[1]}"
        schedule = schedule[zoned.end() :].strip()
    if schedule.startswith("@every "):
        return _pause_error(schedule)
    if schedule.startswith("@"):
        return "" if schedule in _NAMED else f"unrecognized descriptor: {schedule}"
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    problems = (
        problem
        for part, (low, high, words) in zip(parts, _FIELDS, strict=True)
        for term in part.split(",")
        if term and (problem := _term_error(term, low, high, words))
    )
    return next(problems, "")


def _pause_error(schedule: str) -> str:
    text = schedule.removeprefix("@every ")
    prefix = f"failed to parse duration {schedule}: time: "
    if _PAUSE.fullmatch(text):
        return ""
    if unit := _UNKNOWN_UNIT.fullmatch(text):
        return f'{prefix}unknown unit "{unit[1]}" in duration "{text}"'
    return f'{prefix}invalid duration "{text}"'


def _term_error(term: str, low: int, high: int, words: dict[str, int]) -> str:
    if term.count("/") > 1:
        return f"too many slashes: {term}"
    span, slash, step = term.partition("/")
    if span.count("-") > 1:
        return f"too many hyphens: {term}"
    if slash and (problem := _number_error(step)):
        return problem
    first, dash, last = span.partition("-")
    # What follows a star does not count.
    if first not in {"*", "?"}:
        for text in (first, last) if dash else (first,):
            if text.lower() not in words and (problem := _number_error(text)):
                return problem
        start, end = (
            words[text.lower()] if text.lower() in words else int(text) for text in (first, last if dash else first)
        )
        if problem := _range_error(start, end, low, high):
            return f"{problem}: {term}"
    return f"step of range should be a positive number: {term}" if slash and int(step) == 0 else ""


def _range_error(start: int, end: int, low: int, high: int) -> str:
    if start < low:
        return f"beginning of range ({start}) below minimum ({low})"
    if end > high:
        return f"end of range ({end}) above maximum ({high})"
    return f"beginning of range ({start}) beyond end of range ({end})" if start > end else ""


def _number_error(text: str) -> str:
    try:
        number = parse_signed(text)
    except NumberError as error:
        detail = str(error).replace("strconv.ParseInt", "strconv.Atoi")
        return f"failed to parse int from {text}: {detail}"
    return f"negative number ({number}) not allowed: {text}" if number < 0 else ""
