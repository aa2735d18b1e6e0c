"""The domains, one file each, and the union that names them."""

from solvers.domains.free import Free
from solvers.domains.l2_ball import L2Ball

Domain = Free | L2Ball

__all__ = ["Domain", "Free", "L2Ball"]
