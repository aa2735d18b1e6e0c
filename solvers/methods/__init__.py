"""The methods, one file each, and the union that names them."""

from solvers.methods.dp_gd import DpGd
from solvers.methods.dp_svrg import DpSvrg
from solvers.methods.dp_svrg_pp import DpSvrgPp

Method = DpGd | DpSvrg | DpSvrgPp

__all__ = ["DpGd", "DpSvrg", "DpSvrgPp", "Method"]
