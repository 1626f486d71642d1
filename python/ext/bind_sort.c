/* bind_sort.c: orders, selections, counts and places. */
#include <string.h>

#include "autograd/composed.h"
#include "binds.h"
#include "core/scope.h"
#include "ops/sort.h"
#include "return_types.h"

enum { BOTH = AS_FUNCTION | AS_METHOD };

/* --- orders ----------------------------------------------------------------------------------------------------------
 */

static sort_ties ties_of(const arg *stable) { return stable && stable->b ? TIES_STABLE : TIES_AS_PYTORCH; }

static PyObject *sorted_pair(const arg *self, const arg *stable, const arg *dim, const arg *descending, const arg *out)
{
    bk_tensor *places = NULL;
    static int row;
    uint64_t start = next_sequence;
    bk_tensor *values = sort_with(self->tensor, (int)dim->i, descending->b, ties_of(stable), &places);
    if (stable)
        composed_as(values, "_sort_stable", &row, start, (const bk_tensor *[]){ self->tensor }, 1);
    return py_return_two(RETURN_SORT, values, places, out);
}

static PyObject *sorted_places(const arg *self, const arg *stable, const arg *dim, const arg *descending)
{
    bk_tensor *places = NULL;
    bk_release(sort_with(self->tensor, (int)dim->i, descending->b, ties_of(stable), &places));
    return py_wrap(places);
}

static PyObject *py_sort(const arg *a) { return sorted_pair(&a[0], NULL, &a[1], &a[2], &a[3]); }
static PyObject *py_sort_stable(const arg *a) { return sorted_pair(&a[0], &a[1], &a[2], &a[3], &a[4]); }
static PyObject *py_argsort(const arg *a) { return sorted_places(&a[0], NULL, &a[1], &a[2]); }
static PyObject *py_argsort_stable(const arg *a) { return sorted_places(&a[0], &a[1], &a[2], &a[3]); }
static PyObject *py_msort(const arg *a) { return py_out(bk_sort(a[0].tensor, 0, false, NULL), &a[1]); }

static PyObject *py_topk(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_topk(a[0].tensor, a[1].i, (int)a[2].i, a[3].b, a[4].b, &places);
    return py_return_two(RETURN_TOPK, values, places, &a[5]);
}

static PyObject *py_kthvalue(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_kthvalue(a[0].tensor, a[1].i, (int)a[2].i, a[3].b, &places);
    return py_return_two(RETURN_KTHVALUE, values, places, &a[4]);
}

static PyObject *py_median(const arg *a) { return py_wrap(bk_median(a[0].tensor)); }
static PyObject *py_nanmedian(const arg *a) { return py_wrap(bk_nanmedian(a[0].tensor)); }

static PyObject *py_median_dim(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_median_dim(a[0].tensor, (int)a[1].i, a[2].b, &places);
    return py_return_two(RETURN_MEDIAN, values, places, &a[3]);
}

static PyObject *py_nanmedian_dim(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    bk_tensor *places = NULL, *values = bk_nanmedian_dim(a[0].tensor, (int)a[1].i, a[2].b, &places);
    composed_as(values, "_nanmedian_dim", &row, start, (const bk_tensor *[]){ a[0].tensor }, 1);
    return py_return_two(RETURN_NANMEDIAN, values, places, &a[3]);
}

static PyObject *py_mode(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_mode(a[0].tensor, (int)a[1].i, a[2].b, &places);
    return py_return_two(RETURN_MODE, values, places, &a[3]);
}

/* --- quantiles
 * --------------------------------------------------------------------------------------------------------- */

typedef bk_tensor *(*quantile_fn)(const bk_tensor *, const bk_tensor *, int, bool, bk_quantile_rule);

static bool rule_of(const char *name, const char *text, bk_quantile_rule *rule)
{
    static const char *const names[] = {
        [BK_QUANTILE_LINEAR] = "linear",     [BK_QUANTILE_LOWER] = "lower",     [BK_QUANTILE_HIGHER] = "higher",
        [BK_QUANTILE_MIDPOINT] = "midpoint", [BK_QUANTILE_NEAREST] = "nearest",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i]))
            return *rule = (bk_quantile_rule)i, true;
    PyErr_Format(PyExc_RuntimeError,
                 "%s() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
                 "%s",
                 name, text);
    return false;
}

/* a: self, q, dim, keepdim, interpolation, out */
static PyObject *quantile(quantile_fn fn, const char *name, const arg *a, const bk_tensor *q)
{
    bk_quantile_rule rule;
    if (!rule_of(name, a[4].s, &rule))
        return NULL;
    return py_out(fn(a[0].tensor, q, a[2].given ? (int)a[2].i : BK_MAX_NDIM, a[3].b, rule), &a[5]);
}

static PyObject *quantile_number(quantile_fn fn, const char *name, const arg *a)
{
    bk_tensor *q = bk_scalar(a[1].d, bk_dtype_of(a[0].tensor));
    if (!q)
        return py_raise();
    PyObject *r = quantile(fn, name, a, q);
    bk_release(q);
    return r;
}

static PyObject *py_quantile(const arg *a) { return quantile(bk_quantile, "quantile", a, a[1].tensor); }
static PyObject *py_quantile_number(const arg *a) { return quantile_number(bk_quantile, "quantile", a); }
static PyObject *py_nanquantile(const arg *a) { return quantile(bk_nanquantile, "nanquantile", a, a[1].tensor); }
static PyObject *py_nanquantile_number(const arg *a) { return quantile_number(bk_nanquantile, "nanquantile", a); }

/* --- counts
 * -------------------------------------------------------------------------------------------------------------- */

/* The values, or a tuple of them and what else was asked for. */
static PyObject *unique(const arg *self, bool consecutive, bool inverse, bool counts, const arg *dim)
{
    bk_tensor *places = NULL, *numbers = NULL, **p = inverse ? &places : NULL, **n = counts ? &numbers : NULL;
    bk_tensor *values = dim->given ? bk_unique_dim(self->tensor, (int)dim->i, consecutive, p, n)
                                   : bk_unique(self->tensor, consecutive, p, n);
    if (!values)
        return py_raise();
    if (!inverse && !counts)
        return py_wrap(values);
    PyObject *tuple = PyTuple_New(1 + inverse + counts);
    bk_tensor *parts[] = { values, inverse ? places : numbers, numbers };
    for (int i = 0; i < 1 + inverse + counts; i++) {
        PyObject *part = tuple ? py_wrap(parts[i]) : NULL;
        if (tuple && part)
            PyTuple_SET_ITEM(tuple, i, part);
        else if (tuple)
            Py_CLEAR(tuple);
        else
            bk_release(parts[i]);
    }
    return tuple;
}

static PyObject *py_unique(const arg *a) { return unique(&a[0], false, a[2].b, a[3].b, &a[4]); }
static PyObject *py_unique_consecutive(const arg *a) { return unique(&a[0], true, a[1].b, a[2].b, &a[3]); }

static PyObject *py_bincount(const arg *a)
{
    return py_wrap(bk_bincount(a[0].tensor, a[1].given ? a[1].tensor : NULL, a[2].i));
}

static PyObject *py_histc(const arg *a)
{
    return py_out(bk_histc(a[0].tensor, a[1].i, a[2].scalar.d, a[3].scalar.d), &a[4]);
}

static PyObject *py_isin(const arg *a) { return py_out(bk_isin(a[0].tensor, a[1].tensor, a[3].b), &a[4]); }

/* --- places
 * ---------------------------------------------------------------------------------------------------------------- */

/* right, or side where it is given. */
static bool side_of(const arg *right, const arg *side, bool *out)
{
    *out = right->b;
    if (!side->given)
        return true;
    bool is_right = !strcmp(side->s, "right");
    if (!is_right && strcmp(side->s, "left")) {
        PyErr_Format(PyExc_RuntimeError, "torch.searchsorted(): side can only be 'left' or 'right' but got %s",
                     side->s);
        return false;
    }
    if (!is_right && right->b) {
        PyErr_SetString(PyExc_RuntimeError,
                        "torch.searchsorted(): side and right can't be set to opposites, got side of left "
                        "while right was True");
        return false;
    }
    *out = is_right;
    return true;
}

static bk_tensor *found(const bk_tensor *sorted, const bk_tensor *values, bool right, bool narrow)
{
    bk_scope_push();
    bk_tensor *r = bk_searchsorted(sorted, values, right);
    return scope_return(narrow ? bk_to(r, BK_INT32) : r);
}

/* A number as a tensor that changes no dtype. */
static bk_tensor *number_like(const arg *number, const bk_tensor *t)
{
    bool whole = number->scalar.kind != NUMBER_FLOAT || bk_dtype_of(t) <= BK_BFLOAT16;
    return bk_full(0, NULL, number->scalar.d, whole ? bk_dtype_of(t) : bk_get_default_dtype());
}

/* One of the two is a number. */
static PyObject *isin_number(const arg *a, int number)
{
    bk_tensor *t = number_like(&a[number], a[1 - number].tensor);
    bk_tensor *r = !t ? NULL : number ? bk_isin(a[0].tensor, t, a[3].b) : bk_isin(t, a[1].tensor, a[3].b);
    bk_release(t);
    return py_out(r, &a[4]);
}
static PyObject *py_isin_number(const arg *a) { return isin_number(a, 1); }
static PyObject *py_number_isin(const arg *a) { return isin_number(a, 0); }

/* a: sorted_sequence, input, out_int32, right, side, sorter, out */
static PyObject *searchsorted(const arg *a, const bk_tensor *values)
{
    bool right;
    if (!side_of(&a[3], &a[4], &right))
        return NULL;
    if (a[5].given) {
        PyErr_SetString(PyExc_NotImplementedError, "searchsorted(): sorter is not implemented");
        return NULL;
    }
    return py_out(found(a[0].tensor, values, right, a[2].b), &a[6]);
}

static PyObject *py_searchsorted(const arg *a) { return searchsorted(a, a[1].tensor); }

static PyObject *py_searchsorted_number(const arg *a)
{
    bk_tensor *value = number_like(&a[1], a[0].tensor);
    PyObject *r = value ? searchsorted(a, value) : py_raise();
    bk_release(value);
    return r;
}

/* a: input, boundaries, out_int32, right, out */
static PyObject *bucketize(const arg *a, const bk_tensor *values)
{
    if (bk_ndim(a[1].tensor) != 1) {
        PyErr_Format(PyExc_RuntimeError, "boundaries tensor must be 1 dimension, but got dim(%d)",
                     bk_ndim(a[1].tensor));
        return NULL;
    }
    return py_out(found(a[1].tensor, values, a[3].b, a[2].b), &a[4]);
}

static PyObject *py_bucketize(const arg *a) { return bucketize(a, a[0].tensor); }

static PyObject *py_bucketize_number(const arg *a)
{
    bk_tensor *value = number_like(&a[0], a[1].tensor);
    PyObject *r = value ? bucketize(a, value) : py_raise();
    bk_release(value);
    return r;
}

/* --- rows
 * ---------------------------------------------------------------------------------------------------------------------
 */

#define QUANTILE ", int? dim=None, bool keepdim=False, *, str interpolation='linear', Tensor? out=None)"
#define ISIN     ", *, bool assume_unique=False, bool invert=False, Tensor? out=None)"
#define SEARCH   ", *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None, Tensor? out=None)"
#define BUCKETS  ", Tensor boundaries, *, bool out_int32=False, bool right=False, Tensor? out=None)"
const binding sort_rows[] = {
    { BOTH, "sort(Tensor self, int dim=-1, bool descending=False, *, Tensor[]? out=None)", py_sort, NULL },
    { BOTH, "sort(Tensor self, *, bool? stable, int dim=-1, bool descending=False, Tensor[]? out=None)", py_sort_stable,
      NULL },
    { BOTH, "argsort(Tensor self, int dim=-1, bool descending=False)", py_argsort, NULL },
    { BOTH, "argsort(Tensor self, *, bool stable, int dim=-1, bool descending=False)", py_argsort_stable, NULL },
    { BOTH, "msort(Tensor self, *, Tensor? out=None)", py_msort, NULL },
    { BOTH, "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True, *, Tensor[]? out=None)", py_topk,
      NULL },
    { BOTH, "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False, *, Tensor[]? out=None)", py_kthvalue, NULL },
    { BOTH, "median(Tensor self)", py_median, NULL },
    { BOTH, "median(Tensor self, int dim, bool keepdim=False, *, Tensor[]? out=None)", py_median_dim, NULL },
    { BOTH, "nanmedian(Tensor self)", py_nanmedian, NULL },
    { BOTH, "nanmedian(Tensor self, int dim, bool keepdim=False, *, Tensor[]? out=None)", py_nanmedian_dim, NULL },
    { BOTH, "mode(Tensor self, int dim=-1, bool keepdim=False, *, Tensor[]? out=None)", py_mode, NULL },
    { BOTH, "quantile(Tensor self, Tensor q" QUANTILE, py_quantile, NULL },
    { BOTH, "quantile(Tensor self, float q" QUANTILE, py_quantile_number, NULL },
    { BOTH, "nanquantile(Tensor self, Tensor q" QUANTILE, py_nanquantile, NULL },
    { BOTH, "nanquantile(Tensor self, float q" QUANTILE, py_nanquantile_number, NULL },
    { BOTH, "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None)",
      py_unique, NULL },
    { BOTH, "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)",
      py_unique_consecutive, NULL },
    { BOTH, "bincount(Tensor self, Tensor? weights=None, int minlength=0)", py_bincount, NULL },
    { BOTH, "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0, *, Tensor? out=None)", py_histc, NULL },
    { AS_FUNCTION, "isin(Tensor elements, Tensor test_elements" ISIN, py_isin, NULL },
    { AS_FUNCTION, "isin(Tensor elements, Scalar test_element" ISIN, py_isin_number, NULL },
    { AS_FUNCTION, "isin(Scalar element, Tensor test_elements" ISIN, py_number_isin, NULL },
    { AS_FUNCTION, "searchsorted(Tensor sorted_sequence, Tensor input" SEARCH, py_searchsorted, NULL },
    { AS_FUNCTION, "searchsorted(Tensor sorted_sequence, Scalar self" SEARCH, py_searchsorted_number, NULL },
    { AS_FUNCTION, "bucketize(Tensor self" BUCKETS, py_bucketize, NULL },
    { AS_FUNCTION, "bucketize(Scalar self" BUCKETS, py_bucketize_number, NULL },
};
const size_t sort_row_count = sizeof sort_rows / sizeof *sort_rows;
