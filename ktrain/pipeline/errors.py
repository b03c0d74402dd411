"""
Errors of the pipeline, each written for the person whose job does not start.

    PipelineError
    ├── PluginError       a plugin raised; names plugin, hook and job
    │   ├── PluginConflict    two plugins set one field differently; names both
    │   └── PluginOverrun     a hook did not return in time
    └── PlanError         the runtime and the TrainJob do not fit together
"""

from __future__ import annotations


class PipelineError(Exception):
    """Base of all errors that the pipeline raises."""


class PlanError(PipelineError):
    """A plugin refuses to build from this runtime and TrainJob. The message is shown to the user as it is."""


class PluginError(PipelineError):
    """A plugin failed in a way it did not intend; its own jobs wait, all others go on."""

    def __init__(self, plugin: str, hook: str, job: str, cause: BaseException | str) -> None:
        self.plugin = plugin
        self.hook = hook
        self.job = job
        what = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        super().__init__(f"plugin {plugin} failed in {hook} for TrainJob {job}: {what}")


class PluginConflict(PluginError):
    """Two plugins want different values in one field; only one of them can be right, and we cannot know which."""

    def __init__(self, path: str, first: str, second: str, *, hook: str, job: str) -> None:
        self.path = path
        self.first = first
        super().__init__(
            second, hook, job, f"it sets {path}, which plugin {first} has set differently; disable one of the two"
        )


class PluginOverrun(PluginError):
    """A hook did not return in time, for which all other jobs stood still."""


class RegistryError(PipelineError):
    """The plugins cannot be put in order, or two of one name are given. Found at start-up."""
