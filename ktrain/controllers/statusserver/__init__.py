"""
The status server: pods report the progress of their training, and it becomes `status.trainerStatus` of the TrainJob.

- `server` HTTPS: which request is answered how, in which order
- `tokens` who may report on a job: the API server is asked
- `report` what a report says, and whether the API server would take it
- `writer` stores reports: at a bounded rate, of each job the newest
- `authority` follows the CA that pods are given

It runs in every replica, leader or not.
"""

from .authority import Authority as Authority
from .rights import RIGHTS as RIGHTS
from .server import StatusServer as StatusServer
from .tokens import Tokens as Tokens
from .writer import BURST as BURST
from .writer import QPS as QPS
from .writer import Writer as Writer
