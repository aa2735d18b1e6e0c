"""The domains, one file each, and their union."""

from solvers.domains.free import Free
from solvers.domains.l1_ball import L1Ball
from solvers.domains.l2_ball import L2Ball
from solvers.domains.linf_ball import LinfBall
from solvers.domains.simplex import Simplex

Domain = Free | L2Ball | L1Ball | LinfBall | Simplex

__all__ = ["Domain", "Free", "L1Ball", "L2Ball", "LinfBall", "Simplex"]
