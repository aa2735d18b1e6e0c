"""The methods, one file each, and the union that names them."""

from solvers.methods.dp_acc_md import DpAccMd
from solvers.methods.dp_gd import DpGd
from solvers.methods.dp_svrg import DpSvrg
from solvers.methods.dp_svrg_pp import DpSvrgPp
from solvers.methods.noisy_sgd import NoisySgd

Method = DpGd | DpAccMd | DpSvrg | DpSvrgPp | NoisySgd

__all__ = ["DpAccMd", "DpGd", "DpSvrg", "DpSvrgPp", "Method", "NoisySgd"]
