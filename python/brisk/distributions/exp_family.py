"""ExponentialFamily: a base for distributions that are given by their natural parameters."""

from brisk import autograd
from brisk.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Density exp(<t(x), theta> - F(theta) + k(x)). Subclasses give theta as the tuple _natural_params, F as
    _log_normalizer(*theta) and the mean of k(x) as _mean_carrier_measure; the entropy follows from them."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """F(theta) - <theta, grad F(theta)> - E[k(x)]: a Bregman divergence of F."""
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normaliser = self._log_normalizer(*parameters)
        slopes = autograd.grad(normaliser.sum(), parameters, create_graph=True)
        entropy = normaliser - self._mean_carrier_measure
        for parameter, slope in zip(parameters, slopes, strict=True):
            entropy = entropy - (parameter * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return entropy
