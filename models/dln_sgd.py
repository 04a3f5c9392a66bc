"""Minibatch SGD of the two-layer diagonal linear network: gradient flow of `dln_flow` in steps, with batches.

At every step each sample is in the batch with probability ``batch``, and its gradient is divided by it. The theory is
exact at a finite step: `eqsolve solve dln_sgd --step 0.2`.
"""

from eqsolve import load, param

batch = param("batch", positive=True, domain=(0, 1), about="probability that a sample is in a batch")

model = load("dln_flow").sgd(batch=batch).replace("dln_sgd", defaults={batch: 0.2})
