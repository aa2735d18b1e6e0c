"""The regularizers, one file each, and their union."""

from solvers.regularizers.elastic_net import ElasticNet
from solvers.regularizers.l1 import L1
from solvers.regularizers.l2 import L2
from solvers.regularizers.none import NoRegularizer

Regularizer = NoRegularizer | L2 | L1 | ElasticNet

__all__ = ["L1", "L2", "ElasticNet", "NoRegularizer", "Regularizer"]
