"""`aoec tasks`: what tuning a model would have to do."""
from __future__ import annotations

from aoec.base.files.files import write_text
from aoec.cli.command import Command
from aoec.options.compile import TasksOptions


def run(options: TasksOptions) -> int:
    """Writes the list."""
    from aoec.jobs.stages.tasks import list_tasks
    write_text(options.output, list_tasks(options))
    return 0


COMMAND = Command("tasks", "list what tuning a model would have to do. It shows the different groups, their weight, and what the bank has",
                  TasksOptions, run, "deploy", 120, "aoec tasks model.onnx")
