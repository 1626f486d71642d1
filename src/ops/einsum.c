/* einsum.c: sums of products over named dimensions.
 *
 * Every dimension gets a label: the letters are 0..51 (capitals first, as PyTorch orders them), the dimensions under an
 * ellipsis follow, counted from the last. Repeated letters become diagonals by their strides and dimensions of size 1
 * are dropped, so that what is left of an operand has each label once and each size agrees. Then pairs are contracted,
 * in the cheapest order for up to four operands and greedily beyond; a contraction is one batch of GEMMs over strides.
 *
 * Invariant: a part holds only labels that the output or another part still has, once `drop` has seen it. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "ops/products.h"

enum { LETTERS = 52, LABELS = LETTERS + BK_MAX_NDIM, ELLIPSIS = -1, MAX_TERM = 64 };

/* A bit for each label: there may be more than 64, where an ellipsis stands for many dimensions. */
__extension__ typedef unsigned __int128 label_set;

/* The labels of one operand or of the output, as written. */
typedef struct term {
    int8_t label[MAX_TERM]; /* or ELLIPSIS */
    int count;
    bool ellipsis;
} term;

typedef struct part {
    const bk_tensor *t;
    int8_t label[BK_MAX_NDIM]; /* of each dimension */
    label_set set;
    bool contracted, turned; /* by a product of matrices; of which the second operand was the first factor */
} part;

/* The labels of an operand, and those of dimensions of size 1; whether one is there twice. */
typedef struct operand_labels {
    label_set all, ones;
    bool twice;
} operand_labels;

typedef struct sum {
    int64_t size[LABELS];
    int position[LABELS]; /* in the output; labels that it does not have come after, in their own order */
    int8_t output[LABELS];
    int output_count;
    label_set output_set;
    int ellipsis; /* dimensions under the longest one */
    part *parts;
    int count;
    operand_labels of[2]; /* the first operands */
} sum;

static label_set bit(int label) { return (label_set)1 << label; }
static int first_of(label_set set)
{
    const uint64_t low = (uint64_t)set;
    return low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(set >> 64));
}

static int size_of(label_set set)
{
    return __builtin_popcountll((uint64_t)set) + __builtin_popcountll((uint64_t)(set >> 64));
}

/* --- reading the equation --------------------------------------------------------------------------------------------
 */

static int letter_label(char c) { return c <= 'Z' ? c - 'A' : c - 'a' + 26; }
static char label_letter(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

/* The operand's number, or -1 for the output. */
static bool read_ellipsis(const char *at, int operand, term *t)
{
    if (t->ellipsis && operand >= 0)
        return error_null(BK_RUNTIME_ERROR,
                          "einsum(): found '.' for operand %d for which an ellipsis was already found", operand),
               false;
    if (t->ellipsis)
        return error_null(BK_RUNTIME_ERROR, "einsum(): found '.' for output but an ellipsis (...) was already found"),
               false;
    if (at[1] != '.' || at[2] != '.') {
        if (operand >= 0)
            return error_null(BK_RUNTIME_ERROR, "einsum(): found '.' for operand %d that is not part of any ellipsis",
                              operand),
                   false;
        return error_null(BK_RUNTIME_ERROR, "einsum(): found '.' for output that is not part of any ellipsis (...)"),
               false;
    }
    t->ellipsis = true;
    t->label[t->count++] = ELLIPSIS;
    return true;
}

/* One character, or three dots, of a term; how many were read, 0 with the error set. */
static int read_label(const char *equation, const char *at, int operand, term *t)
{
    if (t->count == MAX_TERM)
        return error_null(BK_RUNTIME_ERROR, "einsum(): more than %d subscripts", MAX_TERM), 0;
    if (*at == '.')
        return read_ellipsis(at, operand, t) ? 3 : 0;
    if (!isalpha((unsigned char)*at))
        return error_null(BK_RUNTIME_ERROR,
                          "einsum(): invalid subscript given at index %d in the equation string, subscripts "
                          "must be in [a-zA-Z]",
                          (int)(at - equation)),
               0;
    t->label[t->count++] = (int8_t)letter_label(*at);
    return 1;
}

/* The operands' terms; *arrow is where "->" stands, or NULL. */
static bool read_operands(const char *equation, int count, term *terms, const char **arrow)
{
    *arrow = strstr(equation, "->");
    const char *end = *arrow ? *arrow : equation + strlen(equation);
    int operand = 0;
    for (const char *at = equation; at < end;) {
        if (*at == ' ' || *at == ',') {
            if (*at++ == ',' && ++operand >= count)
                return error_null(BK_RUNTIME_ERROR,
                                  "einsum(): fewer operands were provided than specified in the equation"),
                       false;
            continue;
        }
        int read = read_label(equation, at, operand, &terms[operand]);
        if (!read)
            return false;
        at += read;
    }
    if (operand != count - 1)
        return error_null(BK_RUNTIME_ERROR, "einsum(): more operands were provided than specified in the equation"),
               false;
    return true;
}

static bool check_term(const term *t, const layout *l, int operand)
{
    int letters = t->count - t->ellipsis;
    if (t->ellipsis ? letters <= l->ndim : letters == l->ndim)
        return true;
    return error_null(BK_RUNTIME_ERROR,
                      "einsum(): the number of subscripts in the equation (%d) %s the number of dimensions "
                      "(%d) for operand %d%s",
                      letters, t->ellipsis ? "is more than" : "does not match", l->ndim, operand,
                      t->ellipsis ? "" : " and no ellipsis was given"),
           false;
}

static void put_ellipsis(sum *s)
{
    for (int j = s->ellipsis - 1; j >= 0; j--)
        s->output[s->output_count++] = (int8_t)(LETTERS + j);
}

/* Without an arrow: the ellipsis, then the letters that occur once, in order. */
static void implicit_output(sum *s, const term *terms, int count)
{
    int seen[LETTERS] = { 0 };
    for (int i = 0; i < count; i++)
        for (int k = 0; k < terms[i].count; k++)
            if (terms[i].label[k] != ELLIPSIS)
                seen[(int)terms[i].label[k]]++;
    put_ellipsis(s);
    for (int label = 0; label < LETTERS; label++)
        if (seen[label] == 1)
            s->output[s->output_count++] = (int8_t)label;
}

static bool explicit_output(sum *s, const char *equation, const char *at, label_set present)
{
    term t = { 0 };
    label_set seen = 0;
    while (*at) {
        if (*at == ' ') {
            at++;
            continue;
        }
        int read = read_label(equation, at, -1, &t);
        if (!read)
            return false;
        at += read;
        int label = t.label[t.count - 1];
        if (label == ELLIPSIS) {
            put_ellipsis(s);
            continue;
        }
        if (seen & bit(label))
            return error_null(BK_RUNTIME_ERROR, "einsum(): output subscript %c appears more than once in the output",
                              label_letter(label)),
                   false;
        if (!(present & bit(label)))
            return error_null(BK_RUNTIME_ERROR,
                              "einsum(): output subscript %c does not appear in the equation for any input "
                              "operand",
                              label_letter(label)),
                   false;
        seen |= bit(label);
        s->output[s->output_count++] = (int8_t)label;
    }
    return true;
}

/* --- operands
 * --------------------------------------------------------------------------------------------------------- */

/* The label of each dimension. */
static void spread_labels(const term *t, int ndim, int8_t label[static BK_MAX_NDIM])
{
    int hidden = ndim - (t->count - t->ellipsis), d = 0;
    for (int k = 0; k < t->count; k++) {
        if (t->label[k] != ELLIPSIS) {
            label[d++] = t->label[k];
            continue;
        }
        for (int j = hidden - 1; j >= 0; j--)
            label[d++] = (int8_t)(LETTERS + j);
    }
}

static bool note_size(sum *s, int label, int64_t size, int operand, int dim)
{
    int64_t *known = &s->size[label];
    if (size == 1 || *known == size)
        return true;
    if (*known == 1) {
        *known = size;
        return true;
    }
    if (label < LETTERS)
        return error_null(BK_RUNTIME_ERROR,
                          "einsum(): subscript %c has size %lld for operand %d which does not broadcast with "
                          "previously seen size %lld",
                          label_letter(label), (long long)size, operand, (long long)*known),
               false;
    return error_null(BK_RUNTIME_ERROR,
                      "einsum(): dimension %d covered by ellipsis in operand %dhas size %lld which does not "
                      "broadcast with previously seen ellipsis with size %lld for the respective dimension",
                      dim, operand, (long long)size, (long long)*known),
           false;
}

/* t with one dimension per label: repeated labels add their strides; sizes of 1 go, unless t is alone, whose view the
 * result may be. */
static bool make_part(sum *s, const bk_tensor *t, const term *written, int operand, bool alone, part *p)
{
    const layout *l = t->layout;
    int8_t label[BK_MAX_NDIM];
    int64_t size[BK_MAX_NDIM], stride[BK_MAX_NDIM];
    operand_labels labels = { 0 };
    int n = 0;
    spread_labels(written, l->ndim, label);
    for (int d = 0; d < l->ndim; d++) {
        int same = 0;
        while (same < d && label[same] != label[d])
            same++;
        if (same < d && l->sizes[same] != l->sizes[d])
            return error_null(BK_RUNTIME_ERROR,
                              "einsum(): subscript %c is repeated for operand %d but the sizes don't match, "
                              "%lld != %lld",
                              label_letter(label[d]), operand, (long long)l->sizes[d], (long long)l->sizes[same]),
                   false;
        if (!note_size(s, label[d], l->sizes[d], operand, d))
            return false;
        labels.twice |= same < d;
        labels.all |= bit(label[d]);
        labels.ones |= l->sizes[d] == 1 ? bit(label[d]) : 0;
        if (l->sizes[d] == 1 && !alone)
            continue;
        int at = 0;
        while (at < n && p->label[at] != label[d])
            at++;
        if (at == n) {
            p->label[n] = label[d];
            size[n] = l->sizes[d];
            stride[n++] = 0;
        }
        p->set |= bit(label[d]);
        stride[at] += l->strides[d];
    }
    if (operand < 2)
        s->of[operand] = labels;
    const layout *once = layout_get(n, size, stride);
    p->t = once == l ? tensor_same(t) : once ? made_by(tensor_view_of(t, once, t->offset), VIEW_permute) : NULL;
    return p->t != NULL;
}

static bool read_equation(sum *s, const char *equation, bk_tensor *const *tensors, int count, term *terms)
{
    const char *arrow;
    label_set present = 0;
    if (!read_operands(equation, count, terms, &arrow))
        return false;
    for (int i = 0; i < count; i++) {
        const term *t = &terms[i];
        if (!check_term(t, tensors[i]->layout, i))
            return false;
        int hidden = tensors[i]->layout->ndim - (t->count - t->ellipsis);
        s->ellipsis = hidden > s->ellipsis ? hidden : s->ellipsis;
        for (int k = 0; k < t->count; k++)
            present |= t->label[k] == ELLIPSIS ? 0 : bit(t->label[k]);
    }
    if (!arrow)
        implicit_output(s, terms, count);
    else if (!explicit_output(s, equation, arrow + 2, present))
        return false;
    if (s->output_count > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions, got %d", BK_MAX_NDIM,
                          s->output_count),
               false;
    for (int label = 0; label < LABELS; label++) {
        s->size[label] = 1;
        s->position[label] = LABELS + label;
    }
    for (int k = 0; k < s->output_count; k++) {
        s->position[(int)s->output[k]] = k;
        s->output_set |= bit(s->output[k]);
    }
    for (int i = 0; i < count; i++)
        if (!make_part(s, tensors[i], &terms[i], i, count == 1, &s->parts[i]))
            return false;
    s->count = count;
    return true;
}

/* --- order of contraction
 * ------------------------------------------------------------------------------------------------ */

static double cost_of(const sum *s, label_set set)
{
    double cost = 1;
    for (; set; set &= set - 1)
        cost *= (double)s->size[first_of(set)];
    return cost;
}

static label_set others(const label_set *sets, int count, int i, int j)
{
    label_set set = 0;
    for (int k = 0; k < count; k++)
        if (k != i && k != j)
            set |= sets[k];
    return set;
}

/* The cheapest way to contract all, trying every order; the pair that it starts with. */
static double search(const sum *s, const label_set *sets, int count, int pair[2])
{
    double best = INFINITY;
    if (count == 1)
        return 0;
    for (int i = 0; i < count; i++) {
        for (int j = i + 1; j < count; j++) {
            label_set rest[4] = { (sets[i] | sets[j]) & (s->output_set | others(sets, count, i, j)) };
            int n = 1, unused[2];
            for (int k = 0; k < count; k++)
                if (k != i && k != j)
                    rest[n++] = sets[k];
            double cost = cost_of(s, sets[i] | sets[j]) + search(s, rest, n, unused);
            if (cost < best) {
                best = cost;
                pair[0] = i;
                pair[1] = j;
            }
        }
    }
    return best;
}

static void cheapest_pair(const sum *s, int pair[2])
{
    double best = INFINITY;
    for (int i = 0; i < s->count; i++) {
        for (int j = i + 1; j < s->count; j++) {
            double cost = cost_of(s, s->parts[i].set | s->parts[j].set);
            if (cost >= best)
                continue;
            best = cost;
            pair[0] = i;
            pair[1] = j;
        }
    }
}

static void choose_pair(const sum *s, int pair[2])
{
    label_set sets[4];
    pair[0] = 0;
    pair[1] = 1;
    if (s->count > 4) {
        cheapest_pair(s, pair);
    } else if (s->count > 2) {
        for (int i = 0; i < s->count; i++)
            sets[i] = s->parts[i].set;
        search(s, sets, s->count, pair);
    }
}

/* --- contraction
 * ----------------------------------------------------------------------------------------------------------- */

/* The labels of a set in the order of the output; how many. */
static int list_labels(const sum *s, label_set set, int8_t out[static LABELS])
{
    int n = 0;
    for (; set; set &= set - 1) {
        int label = first_of(set), at = n++;
        for (; at && s->position[(int)out[at - 1]] > s->position[label]; at--)
            out[at] = out[at - 1];
        out[at] = (int8_t)label;
    }
    return n;
}

/* p's dimensions in the order of the labels; a label that p does not have is a dimension of size 1. */
static bk_tensor *arrange(const part *p, const int8_t *labels, int n)
{
    if (n > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions, got %d", BK_MAX_NDIM, n);
    int64_t size[BK_MAX_NDIM], stride[BK_MAX_NDIM];
    const layout *l = p->t->layout;
    for (int k = 0; k < n; k++) {
        int d = 0;
        while (d < l->ndim && p->label[d] != labels[k])
            d++;
        size[k] = d < l->ndim ? l->sizes[d] : 1;
        stride[k] = d < l->ndim ? l->strides[d] : 1;
    }
    const layout *to = layout_get(n, size, stride);
    if (!to)
        return NULL;
    return made_by(tensor_view_of(p->t, to, p->t->offset), p->contracted ? VIEW_view : VIEW_permute);
}

/* Sums over the labels that nobody else has. */
static bool drop(part *p, label_set keep)
{
    uint32_t dims = 0;
    int n = 0;
    for (int d = 0; d < p->t->layout->ndim; d++) {
        if (keep & bit(p->label[d]))
            p->label[n++] = p->label[d];
        else
            dims |= 1u << d;
    }
    if (dims)
        p->t = bk_sum(p->t, dims, false);
    p->set &= keep;
    return p->t != NULL;
}

/* The product without a sum. */
static bool multiply(const sum *s, const part *a, const part *b, part *out)
{
    int8_t labels[LABELS];
    int n = list_labels(s, a->set | b->set, labels);
    out->t = bk_mul(arrange(a, labels, n), arrange(b, labels, n));
    memcpy(out->label, labels, (size_t)(n < BK_MAX_NDIM ? n : BK_MAX_NDIM));
    return out->t != NULL;
}

/* A batch of matrices: the batch, then rows and columns, each of which may stand for several labels. */
typedef struct axes {
    int8_t labels[LABELS];
    int count;
} axes;

static axes axes_of(const sum *s, label_set set)
{
    axes x;
    x.count = list_labels(s, set, x.labels);
    return x;
}

static bk_tensor *as_matrices(const sum *s, const part *p, axes batch, axes rows, axes columns)
{
    int8_t order[3 * LABELS];
    int n = 0;
    const axes *all[] = { &batch, &rows, &columns };
    int64_t sizes[LABELS + 2];
    int ndim = batch.count + 2;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < all[k]->count; i++)
            order[n++] = all[k]->labels[i];
    for (int i = 0; i < batch.count; i++)
        sizes[i] = s->size[(int)batch.labels[i]];
    sizes[ndim - 2] = sizes[ndim - 1] = 1;
    for (int i = 0; i < rows.count; i++)
        sizes[ndim - 2] *= s->size[(int)rows.labels[i]];
    for (int i = 0; i < columns.count; i++)
        sizes[ndim - 1] *= s->size[(int)columns.labels[i]];
    return bk_reshape(arrange(p, order, n), ndim, sizes);
}

/* The matrices' rows are what only a has, their columns what only b has. */
static bool contract(const sum *s, const part *a, const part *b, label_set keep, part *out)
{
    label_set both = a->set & b->set;
    axes batch = axes_of(s, both & keep), inner = axes_of(s, both & ~keep);
    axes rows = axes_of(s, a->set & ~b->set), columns = axes_of(s, b->set & ~a->set);
    if (rows.count && columns.count &&
        s->position[(int)rows.labels[0]] > s->position[(int)columns.labels[columns.count - 1]])
        return out->turned = true, contract(s, b, a, keep, out); /* the output's own order */
    const bk_tensor *x = as_matrices(s, a, batch, rows, inner), *y = as_matrices(s, b, batch, inner, columns);
    if (!x || !y || !check_product_dtype(x, y))
        return false;
    bk_tensor *c = bk_to(product_wide(x, y), tensor_dtype(x));
    int64_t sizes[3 * LABELS];
    int n = 0;
    const axes *all[] = { &batch, &rows, &columns };
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < all[k]->count; i++) {
            if (n < BK_MAX_NDIM)
                out->label[n] = all[k]->labels[i];
            sizes[n++] = s->size[(int)all[k]->labels[i]];
        }
    }
    out->t = made_by(bk_view(c, n, sizes), VIEW_permute);
    out->contracted = true;
    return out->t != NULL;
}

/* A dot product for each element of the result is a product and a sum over it, which fuse. */
static bool multiply_and_sum(const sum *s, const part *a, const part *b, label_set keep, part *out)
{
    bk_dtype dtype = tensor_dtype(a->t);
    if (!check_product_dtype(a->t, b->t) || !multiply(s, a, b, out) || !drop(out, keep))
        return false;
    out->t = bk_to(out->t, dtype);
    return out->t != NULL;
}

static bool join(sum *s, int i, int j)
{
    part *a = &s->parts[i], *b = &s->parts[j], out = { 0 };
    label_set rest = s->output_set;
    for (int k = 0; k < s->count; k++)
        rest |= k != i && k != j ? s->parts[k].set : 0;
    if (!drop(a, rest | b->set) || !drop(b, rest | a->set))
        return false;
    label_set both = a->set & b->set;
    out.set = (a->set | b->set) & rest;
    bool good = !(both & ~rest)                   ? multiply(s, a, b, &out)
                : a->set == b->set && both & rest ? multiply_and_sum(s, a, b, rest, &out)
                                                  : contract(s, a, b, rest, &out);
    *a = out;
    s->parts[j] = s->parts[--s->count];
    return good;
}

static bk_tensor *evaluate(sum *s)
{
    bool joined = s->count > 1;
    while (s->count > 1) {
        int pair[2];
        choose_pair(s, pair);
        if (!join(s, pair[0], pair[1]))
            return NULL;
    }
    const bk_tensor *before = s->parts[0].t;
    if (!drop(&s->parts[0], s->output_set))
        return NULL;
    bk_tensor *result = arrange(&s->parts[0], s->output, s->output_count);
    if (!result || (!joined && s->parts[0].t == before)) /* a view of the operand */
        return result;
    if (s->parts[0].contracted)
        return tensor_as_own_taped(result);
    return result->layout == s->parts[0].t->layout ? tensor_same(s->parts[0].t) : tensor_as_own(result);
}

/* Whether two operands are multiplied as matrices to PyTorch, too, without sums before: labels that are summed over are
 * both operands', and no label is twice in one. made[]: how many dimensions PyTorch makes in each operand. */
static bool is_product(const sum *s, int made[static 2])
{
    const operand_labels *a = &s->of[0], *b = &s->of[1];
    const label_set repeated = (a->ones & b->all & ~b->ones) | (b->ones & a->all & ~a->ones);
    if (a->twice || b->twice || repeated || ((a->all ^ b->all) | a->ones | b->ones) & ~s->output_set)
        return false;
    made[0] = size_of(b->all & ~a->all);
    made[1] = size_of(a->all & ~b->all);
    return true;
}

/* PyTorch puts the dimensions that it sums over last. */
static bk_tensor *shown_sum(bk_tensor *t, const sum *s, bk_tensor *const *tensors, uint64_t start)
{
    static int row;
    const bk_tensor *x = tensors[0];
    const bool summed = !s->of[0].twice && x->layout->ndim > s->output_count;
    return summed ? composed_as(t, "_einsum_sum", &row, start, &x, 1) : t;
}

/* Under the name of PyTorch's functions for it. */
static bk_tensor *shown_product(bk_tensor *t, const sum *s, bk_tensor *const *tensors, uint64_t start)
{
    enum { MOST = 4 };
    static int rows[2][MOST][MOST];
    int made[2];
    const part *p = &s->parts[0];
    if (!t || !p->contracted || !is_product(s, made) || made[0] >= MOST || made[1] >= MOST)
        return t;
    int *row = &rows[p->turned][made[0]][made[1]];
    char name[48] = "";
    if (!*row)
        snprintf(name, sizeof name, "_einsum_%s%d%d", p->turned ? "turned_" : "", made[0], made[1]);
    const bk_tensor *of[] = { tensors[p->turned], tensors[!p->turned] };
    return composed_as(t, name, row, start, of, 2);
}

bk_tensor *bk_einsum(const char *equation, bk_tensor *const *tensors, int count)
{
    if (count < 1)
        return error_null(BK_RUNTIME_ERROR, "einsum(): must provide at least one operand");
    for (int i = 0; i < count; i++)
        if (!tensors[i])
            return NULL;
    lock_take();
    bk_scope_push();
    const uint64_t start = next_sequence;
    bk_tensor *result = NULL;
    sum s = { .parts = mem_alloc_zero((size_t)count * sizeof(part)) };
    term *terms = mem_alloc_zero((size_t)count * sizeof *terms);
    if (s.parts && terms && read_equation(&s, equation, tensors, count, terms))
        result = evaluate(&s);
    if (result && count <= 2 && tensor_tracked(result))
        result = (count == 1 ? shown_sum : shown_product)(result, &s, tensors, start);
    mem_free(s.parts);
    mem_free(terms);
    result = scope_return(result);
    lock_give();
    return result;
}
