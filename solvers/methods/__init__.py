"""The methods, one file each, and the union that names them."""

from solvers.methods.dp_gd import DpGd
from solvers.methods.dp_svrg import DpSvrg

Method = DpGd | DpSvrg

__all__ = ["DpGd", "DpSvrg", "Method"]
