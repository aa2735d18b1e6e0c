"""The methods, one file each, and the union that names them."""

from solvers.methods.oracle.dp_acc_md import DpAccMd
from solvers.methods.oracle.dp_gd import DpGd
from solvers.methods.oracle.dp_svrg import DpSvrg
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPp
from solvers.methods.oracle.noisy_mirror_descent import NoisyMirrorDescent
from solvers.methods.oracle.noisy_sgd import NoisySgd

Method = DpAccMd | DpGd | DpSvrg | DpSvrgPp | NoisyMirrorDescent | NoisySgd

__all__ = [
    "DpAccMd",
    "DpGd",
    "DpSvrg",
    "DpSvrgPp",
    "Method",
    "NoisyMirrorDescent",
    "NoisySgd",
]
