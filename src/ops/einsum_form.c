/* einsum_form.c: PyTorch's way through an einsum, in the language of composed.def.
 *
 * PyTorch gives every operand all dimensions, those of the result first and then those that are summed over, in the
 * order of their letters; what an operand lacks is of size 1. It contracts them from the left, two at a time:
 * dimensions that only one of both still has to be summed over are, then those of both by a product of matrices, and
 * where there are none it multiplies. Which functions that takes depends on sizes and strides, so both are followed
 * here; that is done once for an equation and layouts, and remembered. */
#include "ops/einsum_form.h"

#include <stdio.h>
#include <string.h>

#include "autograd/composed.h"
#include "autograd/product_steps.h"
#include "ops/elementwise.h"

enum { TEXT = 2048, LETTERS = 52 };

/* A tensor on the way. l is NULL when memory is out. */
typedef struct value {
    const layout *l;
    char text[TEXT];
} value;

/* The dimensions of all operands, by their labels. */
typedef struct dims {
    int8_t label[BK_MAX_NDIM];
    int count, output;
    int left[BK_MAX_NDIM]; /* how many operands still have each in more than one element */
} dims;

static void wrap(value *v, const char *name)
{
    char inner[TEXT];
    memcpy(inner, v->text, sizeof inner);
    if (snprintf(v->text, sizeof v->text, "%s(%s)", name, inner) >= (int)sizeof v->text)
        v->l = NULL;
}

static int place_of(const dims *d, int label)
{
    for (int k = 0; k < d->count; k++)
        if (d->label[k] == label)
            return k;
    return -1;
}

/* Those under an ellipsis are numbered from the last. */
static int rank_of(int label) { return label < LETTERS ? label : 3 * LETTERS - label; }

static bool find_dims(const einsum_call *c, dims *d)
{
    memset(d, 0, sizeof *d);
    memcpy(d->label, c->output, (size_t)c->output_count);
    d->count = d->output = c->output_count;
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->of[i].layout->ndim; k++) {
            int label = c->of[i].label[k], at = d->count;
            if (place_of(d, label) >= 0)
                continue;
            if (at == BK_MAX_NDIM)
                return false;
            for (; at > d->output && rank_of(d->label[at - 1]) > rank_of(label); at--)
                d->label[at] = d->label[at - 1];
            d->label[at] = (int8_t)label;
            d->count++;
        }
    return true;
}

static void count_dims(const einsum_call *c, dims *d)
{
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->of[i].layout->ndim; k++) {
            int first = 0;
            while (c->of[i].label[first] != c->of[i].label[k])
                first++;
            d->left[place_of(d, c->of[i].label[k])] += first == k && c->of[i].layout->sizes[k] != 1;
        }
}

/* An operand with all dimensions. */
static void spread(const einsum_call *c, int i, const dims *d, value *v)
{
    const layout *l = c->of[i].layout;
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    bool has[BK_MAX_NDIM] = { false };
    snprintf(v->text, sizeof v->text, "%d", i);
    v->l = l;
    for (int k = 0; k < d->count; k++) {
        sizes[k] = 1;
        strides[k] = 0;
    }
    for (int k = 0; k < l->ndim; k++) {
        int at = place_of(d, c->of[i].label[k]);
        if (has[at]) {
            wrap(v, "DiagonalBackward0");
            wrap(v, "PermuteBackward0");
        }
        has[at] = true;
        sizes[at] = l->sizes[k];
        strides[at] += l->strides[k];
    }
    for (int k = 0; k < d->count; k++)
        if (!has[k]) {
            wrap(v, "UnsqueezeBackward0");
            strides[k] = 1;
        }
    wrap(v, "PermuteBackward0");
    v->l = v->l ? layout_get(d->count, sizes, strides) : NULL;
}

/* Sums over these dimensions, which stay. */
static void sum_over(value *v, uint32_t which)
{
    int64_t sizes[BK_MAX_NDIM];
    if (!which || !v->l)
        return;
    for (int k = 0; k < v->l->ndim; k++)
        sizes[k] = which >> k & 1 ? 1 : v->l->sizes[k];
    v->l = layout_get(v->l->ndim, sizes, NULL);
    wrap(v, "SumBackward1");
}

/* Repeated to these sizes. */
static const layout *repeated(const layout *l, const int64_t *sizes)
{
    int64_t strides[BK_MAX_NDIM];
    for (int k = 0; k < l->ndim; k++)
        strides[k] = l->sizes[k] == sizes[k] ? l->strides[k] : 0;
    return layout_get(l->ndim, sizes, strides);
}

static void multiply(const value *a, const value *b, value *out)
{
    int64_t sizes[BK_MAX_NDIM];
    for (int k = 0; k < a->l->ndim; k++)
        sizes[k] = a->l->sizes[k] == 1 ? b->l->sizes[k] : a->l->sizes[k];
    const layout *plain = layout_get(a->l->ndim, sizes, NULL), *in[] = { repeated(a->l, sizes), repeated(b->l, sizes) };
    out->l = plain && in[0] && in[1] ? strides_of_result(in, 2, plain) : NULL;
    if (snprintf(out->text, sizeof out->text, "MulBackward0(%s,%s)", a->text, b->text) >= (int)sizeof out->text)
        out->l = NULL;
}

/* Which dimensions a product of matrices has as what: batch, of the left alone, of the right or none, summed over. */
enum { BATCH, LEFT, RIGHT, INNER, ROLES };
typedef struct roles {
    int dim[ROLES][BK_MAX_NDIM], count[ROLES];
    int64_t size[ROLES];
} roles;

static roles find_roles(const value *a, const value *b, uint32_t summed)
{
    roles r = { .size = { 1, 1, 1, 1 } };
    for (int k = 0; k < a->l->ndim; k++) {
        bool left = a->l->sizes[k] != 1, right = b->l->sizes[k] != 1;
        int role = summed >> k & 1 ? INNER : left && right ? BATCH : left ? LEFT : RIGHT;
        r.dim[role][r.count[role]++] = k;
        r.size[role] *= left ? a->l->sizes[k] : b->l->sizes[k];
    }
    return r;
}

static roles turned(roles r)
{
    roles other = r;
    memcpy(other.dim[LEFT], r.dim[RIGHT], sizeof r.dim[LEFT]);
    memcpy(other.dim[RIGHT], r.dim[LEFT], sizeof r.dim[LEFT]);
    other.count[LEFT] = r.count[RIGHT];
    other.count[RIGHT] = r.count[LEFT];
    other.size[LEFT] = r.size[RIGHT];
    other.size[RIGHT] = r.size[LEFT];
    return other;
}

/* A factor in the order of these roles, as matrices. */
static void as_matrices(value *v, const roles *r, const int order[4], const int64_t sizes[3])
{
    int64_t size[BK_MAX_NDIM], stride[BK_MAX_NDIM];
    int n = 0;
    for (int i = 0; i < ROLES; i++)
        for (int k = 0; k < r->count[order[i]]; k++, n++) {
            size[n] = v->l->sizes[r->dim[order[i]][k]];
            stride[n] = v->l->strides[r->dim[order[i]][k]];
        }
    const layout *permuted = layout_get(n, size, stride);
    wrap(v, "PermuteBackward0");
    const char *const *names = permuted ? reshape_names(permuted, 3, sizes) : NULL;
    for (int i = 0; names && i < 2 && names[i]; i++)
        wrap(v, names[i]);
    v->l = names ? v->l : NULL;
}

static void product(value *a, value *b, uint32_t summed, value *out)
{
    static const int left[] = { BATCH, LEFT, INNER, RIGHT }, right[] = { BATCH, INNER, RIGHT, LEFT };
    static const int result[] = { BATCH, LEFT, INNER, RIGHT };
    roles r = find_roles(a, b, summed);
    if (r.count[LEFT] && r.count[RIGHT] && r.dim[RIGHT][r.count[RIGHT] - 1] < r.dim[LEFT][0]) {
        value *first = b; /* the right one's dimensions are the first of the result */
        b = a;
        a = first;
        r = turned(r);
    }
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM], stride = 1;
    for (int i = ROLES - 1; i >= 0; i--)
        for (int k = r.count[result[i]] - 1; k >= 0; k--) {
            int at = r.dim[result[i]][k];
            sizes[at] = result[i] == INNER ? 1 : a->l->sizes[at] != 1 ? a->l->sizes[at] : b->l->sizes[at];
            strides[at] = stride;
            stride *= sizes[at];
        }
    int ndim = a->l->ndim;
    as_matrices(a, &r, left, (int64_t[]){ r.size[BATCH], r.size[LEFT], r.size[INNER] });
    as_matrices(b, &r, right, (int64_t[]){ r.size[BATCH], r.size[INNER], r.size[RIGHT] });
    int written =
        snprintf(out->text, sizeof out->text, "PermuteBackward0(ViewBackward0(BmmBackward0(%s,%s)))", a->text, b->text);
    out->l = a->l && b->l && written < (int)sizeof out->text ? layout_get(ndim, sizes, strides) : NULL;
}

/* The product of two, summed over what no other operand has. */
static void contract(dims *d, value *a, value *b, value *out)
{
    uint32_t of_a = 0, of_b = 0, of_both = 0;
    for (int k = d->output; k < d->count; k++) {
        bool in_a = a->l->sizes[k] != 1, in_b = b->l->sizes[k] != 1;
        if (in_a && in_b && d->left[k] == 2)
            of_both |= 1u << k;
        else if (in_a && in_b)
            d->left[k]--;
        else if (d->left[k] == 1 && (in_a || in_b))
            *(in_a ? &of_a : &of_b) |= 1u << k;
        if ((of_a | of_b | of_both) >> k & 1)
            d->left[k] = 0;
    }
    sum_over(a, of_a);
    sum_over(b, of_b);
    out->l = NULL;
    if (a->l && b->l && of_both)
        product(a, b, of_both, out);
    else if (a->l && b->l)
        multiply(a, b, out);
}

static int follow(const einsum_call *c, value *a, value *b, value *both)
{
    dims d;
    if (!find_dims(c, &d))
        return -1;
    count_dims(c, &d);
    spread(c, 0, &d, a);
    for (int i = 1; i < c->count && a->l; i++) {
        spread(c, i, &d, b);
        if (!b->l)
            return -1;
        contract(&d, a, b, both);
        *a = *both;
    }
    if (a->l && d.count > d.output)
        wrap(a, c->count > 1 ? "ViewBackward0" : "SumBackward1");
    return a->l ? composed_form(a->text, c->order) : -1;
}

/* --- remembering ----------------------------------------------------------------------------------------------------
 */

typedef struct remembered {
    char equation[40], order[EINSUM_MOST + 1];
    uint32_t layout[EINSUM_MOST]; /* their numbers, which are never given again */
    int count, form;
} remembered;

static bool is_same(const remembered *r, const einsum_call *c)
{
    for (int i = 0; i < c->count; i++)
        if (r->count != c->count || r->layout[i] != c->of[i].layout->id)
            return false;
    return strcmp(r->equation, c->equation) == 0 && strcmp(r->order, c->order) == 0;
}

int einsum_form(const einsum_call *c)
{
    enum { KEPT = 64 };
    static remembered kept[KEPT];
    static value a, b, both; /* with the lock */
    uint32_t at = (uint32_t)strlen(c->equation);
    for (int i = 0; i < c->count; i++)
        at = at * 31 + c->of[i].layout->id;
    remembered *r = &kept[at % KEPT];
    if (is_same(r, c))
        return r->form;
    int form = follow(c, &a, &b, &both);
    if (strlen(c->equation) < sizeof r->equation) {
        *r = (remembered){ .count = c->count, .form = form };
        strcpy(r->equation, c->equation);
        strcpy(r->order, c->order);
        for (int i = 0; i < c->count; i++)
            r->layout[i] = c->of[i].layout->id;
    }
    return form;
}
