"""Regression tables: private logistic and linear models with valid standard errors."""

from solvers.inference.regression_table import RegressionTable, RegressionTableRun

__all__ = ["RegressionTable", "RegressionTableRun"]
