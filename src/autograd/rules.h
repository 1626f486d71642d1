/* rules.h: the gradients that nodes.def names. */
#ifndef BK_AUTOGRAD_RULES_H
#define BK_AUTOGRAD_RULES_H
#include "core/node.h"

/* Adds g, the gradient of a view, to the gradient of the whole; into == NULL makes a new one. */
bk_tensor *add_view_gradient(const node *n, bk_tensor *g, bk_tensor *into);
/* The gradient of a view that only orders the elements of the whole anew is g ordered back, without a copy. False where
 * the view is of another kind; *out is NULL on failure. */
bool reorder_gradient(const node *n, bk_tensor *g, bk_tensor **out);
/* Whether n is an as_strided that reaches beyond the view it was made of, or one of elements that share memory. */
bool view_leaves(const node *n);

/* Whether the gradient of an update's old value is 0 in the region: then both its gradients are tensors of their own.
 */
static inline bool update_clears(const node *n) { return !n->attr.region.add && !(n->attr.region.tape & REGION_FRESH); }

int grad_elementwise(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_cast(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_view(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_expand(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_update(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_matmul(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_tril(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_triu(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);

/* rules_index.c */
int grad_gather(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_scatter(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_scatter_reduce(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_index_get(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_index_put(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_mask_select(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_mask_scatter(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_accumulate(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_flip(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);

/* The result of n as a tensor at n's place: its value, or what stands for that in a rule over packed values. */
bk_tensor *rule_result(node *n);
/* What rules share. g in memory of the strides l, what regions of l can be taken from; zeros of any strides. */
bk_tensor *rule_conform(bk_tensor *g, const layout *l);
/* g summed over the dimensions that were repeated to make it from `to`. */
bk_tensor *rule_sum_to(bk_tensor *g, const layout *to);
bk_tensor *rule_zeros(const layout *l, bk_dtype dtype);
/* For a derivative that nobody has written: NULL, and the error that PyTorch raises there. */
bk_tensor *rule_missing(const char *what);
/* The same for a function that PyTorch has no row for: it is called NotImplemented there. */
bk_tensor *rule_refused(const char *function);
/* rules_reduce.c */
int grad_sum(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_mean(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_prod(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_var(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_std(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_evenly(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_shares(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_binary_cross_entropy(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_norm(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_logsumexp(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_standardise(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_standardise_back(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_softmax_back(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_softmax(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_log_softmax(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_cumsum(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_cumprod(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_logcumsumexp(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_pick(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_place(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);

/* rules_linalg.c */
int grad_cholesky(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_solve_triangular(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_lu_solve(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_inverse(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_det(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_signdet(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_logabsdet(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_lu_factor(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_qr_r(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);
int grad_qr_other(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);

#endif
