"""
`ktrain top`: TrainJobs, controllers, queues and plugins, live in a terminal.

- `command` the command line, and the loop that draws; `views` what it draws
- `jobs` what is shown of a TrainJob, from a watch
- `source` where metrics come from
- `samples` one scrape; `figures` rates and quantiles between two
- `screen` the tables as text, and the terminal
"""

from .command import command as command
