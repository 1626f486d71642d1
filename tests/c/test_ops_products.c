/* test_ops_products.c: products, contractions and their gradients, against sums written out. */
#include <math.h>
#include <string.h>

#include "brisk.h"
#include "graph/plan.h"
#include "tap.h"

/* Values that are exact in float32 and in their products and sums: any order of adding gives the same. */
static bk_tensor *numbers(int ndim, const int64_t *sizes, int seed)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= sizes[d];
    float v[n ? n : 1];
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)((i * 7 + seed * 5) % 11 - 5);
    return bk_from_data(v, ndim, sizes, BK_FLOAT32);
}
#define NUMBERS(seed, ...)                                                                                             \
    numbers(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (int64_t[]){ __VA_ARGS__ }, seed)

static bool same(bk_tensor *a, bk_tensor *b)
{
    if (!a || !b || bk_ndim(a) != bk_ndim(b) || memcmp(bk_sizes(a), bk_sizes(b), (size_t)bk_ndim(a) * sizeof(int64_t)))
        return false;
    bk_tensor *wrong = bk_sum(bk_ne(a, b), 0, false);
    return wrong && bk_item(wrong) == 0;
}

static bool fails(bk_tensor *t, const char *words)
{
    bool good = !t && bk_error() && strstr(bk_error(), words);
    if (!good)
        printf("# got: %s\n", bk_error() ? bk_error() : "(no error)");
    bk_error_clear();
    return good;
}

/* sum_k a[i,k] b[k,j] by broadcasting: (i,k,1) x (k,j). */
static bk_tensor *slow(bk_tensor *a, bk_tensor *b) { return bk_sum(bk_mul(bk_unsqueeze(a, -1), b), 2, false); }

static void ranks(void)
{
    bk_scope_push();
    bk_tensor *a = NUMBERS(1, 3, 5), *b = NUMBERS(2, 5, 4), *v = NUMBERS(3, 5);
    tap_ok(same(bk_mm(a, b), slow(a, b)), "mm sums over the inner dimension");
    tap_ok(same(bk_matmul(v, b), bk_sum(bk_mul(bk_unsqueeze(v, 1), b), 1, false)), "a vector times a matrix");
    tap_ok(same(bk_mv(a, v), bk_sum(bk_mul(a, v), 2, false)), "a matrix times a vector");
    tap_ok(same(bk_dot(v, v), bk_sum(bk_mul(v, v), 0, false)), "dot");
    bk_tensor *x = NUMBERS(4, 2, 3, 5), *y = NUMBERS(5, 2, 5, 4);
    bk_tensor *whole = bk_matmul(x, b);
    tap_ok(same(bk_select(whole, 0, 1), bk_mm(bk_select(x, 0, 1), b)), "a batch times a matrix folds");
    whole = bk_bmm(x, y);
    tap_ok(same(bk_select(whole, 0, 1), bk_mm(bk_select(x, 0, 1), bk_select(y, 0, 1))), "a batch times a batch");
    whole = bk_matmul(bk_unsqueeze(x, 1), NUMBERS(6, 7, 5, 4));
    tap_ok(bk_ndim(whole) == 4 && bk_sizes(whole)[1] == 7, "batches broadcast");
    tap_ok(same(bk_matmul(a, y), bk_bmm(bk_expand(a, 3, (int64_t[]){ 2, 3, 5 }), y)), "a matrix times a batch");
    tap_ok(same(bk_addmm(v, bk_transpose(a, 0, 1), a, 2, 3),
                bk_add(bk_mul_s(v, 2), bk_mul_s(slow(bk_transpose(a, 0, 1), a), 3))),
           "addmm scales both sides");
    tap_ok(same(bk_addbmm(bk_zeros(0, NULL, BK_FLOAT32), x, y, 1, 1), bk_sum(bk_bmm(x, y), 1, false)),
           "addbmm sums over the batch");
    tap_ok(same(bk_linear(x, bk_transpose(b, 0, 1), NULL), bk_matmul(x, b)), "linear multiplies by the transpose");
    tap_ok(same(bk_linear(x, bk_transpose(b, 0, 1), NUMBERS(7, 4)), bk_add(bk_matmul(x, b), NUMBERS(7, 4))),
           "linear adds a bias to each row");
    tap_ok(
        same(bk_matrix_power(NUMBERS(8, 3, 3), 3), bk_mm(bk_mm(NUMBERS(8, 3, 3), NUMBERS(8, 3, 3)), NUMBERS(8, 3, 3))),
        "a cube of a matrix");
    bk_tensor *chain[] = { a, b, NUMBERS(1, 4, 2) };
    tap_ok(same(bk_multi_dot(chain, 3), bk_mm(bk_mm(a, b), chain[2])), "a chain in any order is the same product");
    tap_ok(same(bk_kron(NUMBERS(1, 2), NUMBERS(2, 3)),
                bk_view(bk_outer(NUMBERS(1, 2), NUMBERS(2, 3)), 1, (int64_t[]){ 6 })),
           "kron of vectors is their outer product in a row");
    bk_scope_pop();
}

static void errors(void)
{
    bk_scope_push();
    bk_tensor *a = NUMBERS(1, 2, 3), *v = NUMBERS(1, 3), *c = NUMBERS(1, 2, 3, 4);
    tap_ok(fails(bk_mm(a, a), "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"), "mm names the shapes");
    tap_ok(fails(bk_mm(a, v), "mat2 must be a matrix"), "mm wants matrices");
    tap_ok(fails(bk_matmul(c, NUMBERS(1, 3, 4, 2)), "The size of tensor a (2) must match the size of tensor b (3) at "
                                                    "non-singleton dimension 0"),
           "batches that do not broadcast");
    tap_ok(
        fails(bk_bmm(c, NUMBERS(1, 2, 5, 2)), "first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5]."),
        "bmm names what it expected");
    tap_ok(fails(bk_mm(a, bk_to(bk_transpose(a, 0, 1), BK_FLOAT64)), "same dtype, but got: float != double"),
           "dtypes must agree");
    bk_tensor *two[] = { a, a };
    tap_ok(fails(bk_einsum("ij,jk", two, 2),
                 "subscript j has size 2 for operand 1 which does not broadcast with previously "
                 "seen size 3"),
           "einsum checks sizes");
    tap_ok(fails(bk_einsum("ij", two, 2), "more operands were provided"), "einsum counts operands");
    tap_ok(fails(bk_einsum("i1,ij", two, 2), "invalid subscript given at index 1"), "einsum wants letters");
    bk_scope_pop();
}

static void einsums(void)
{
    bk_scope_push();
    bk_tensor *a = NUMBERS(1, 3, 5), *b = NUMBERS(2, 5, 4), *s = NUMBERS(3, 4, 4);
    bk_tensor *ab[] = { a, b }, *one[] = { s }, *three[] = { a, b, s };
    tap_ok(same(bk_einsum("ij,jk->ik", ab, 2), bk_mm(a, b)), "a matrix product");
    tap_ok(same(bk_einsum(" j k , i j -> k i", (bk_tensor *[]){ b, a }, 2), bk_transpose(bk_mm(a, b), 0, 1)),
           "transposed");
    tap_ok(bk_item(bk_einsum("ii", one, 1)) == bk_item(bk_sum(bk_einsum("ii->i", one, 1), 0, false)), "a trace");
    tap_ok(same(bk_einsum("ij,jk,kl", three, 3), bk_mm(bk_mm(a, b), s)), "three factors");
    tap_ok(same(bk_einsum("ij,jk,kk->i", three, 3), bk_mv(bk_mm(a, b), bk_einsum("ii->i", one, 1))),
           "a diagonal within");
    bk_tensor *x = NUMBERS(4, 2, 3, 5), *y = NUMBERS(5, 2, 4, 5), *xy[] = { x, y };
    tap_ok(same(bk_einsum("bid,bjd->bij", xy, 2), bk_bmm(x, bk_transpose(y, 1, 2))), "attention's scores");
    tap_ok(same(bk_einsum("...id,...jd->...ij", xy, 2), bk_bmm(x, bk_transpose(y, 1, 2))),
           "the same under an ellipsis");
    tap_ok(same(bk_einsum("bid,bjd->ij", xy, 2), bk_sum(bk_bmm(x, bk_transpose(y, 1, 2)), 1, false)), "a summed batch");
    tap_ok(same(bk_einsum("bid,bid->bi", (bk_tensor *[]){ x, x }, 2), bk_sum(bk_mul(x, x), 4, false)),
           "many dot products");
    tap_ok(
        same(bk_einsum("ij,kl->ijkl", (bk_tensor *[]){ a, s }, 2), bk_mul(bk_view(a, 4, (int64_t[]){ 3, 5, 1, 1 }), s)),
        "an outer product");
    bk_tensor *five[] = { a, b, s, s, s };
    tap_ok(same(bk_einsum("ij,jk,kl,lm,mn->in", five, 5), bk_mm(bk_mm(bk_mm(bk_mm(a, b), s), s), s)),
           "five factors, greedily");
    tap_ok(same(bk_einsum("ij,jk->ik", (bk_tensor *[]){ NUMBERS(1, 3, 1), b }, 2),
                bk_mul(NUMBERS(1, 3, 1), bk_sum(b, 1, true))),
           "a dimension of size 1 broadcasts");
    bk_scope_pop();
}

static void gradients(void)
{
    bk_scope_push();
    bk_tensor *x = NUMBERS(1, 2, 3, 5), *w = NUMBERS(2, 4, 5), *bias = NUMBERS(3, 4), *g = NUMBERS(4, 2, 3, 4);
    bk_set_requires_grad(x, true);
    bk_set_requires_grad(w, true);
    bk_set_requires_grad(bias, true);
    bk_sync();
    int64_t products = run_count().instructions[DO_KERNEL], copies = run_count().instructions[DO_COPY];
    bk_backward(bk_linear(x, w, bias), g, false, false);
    products = run_count().instructions[DO_KERNEL] - products;
    copies = run_count().instructions[DO_COPY] - copies;
    bk_tensor *flat_x = bk_detach(bk_view(x, 2, (int64_t[]){ 6, 5 })), *flat_g = bk_view(g, 2, (int64_t[]){ 6, 4 });
    tap_ok(same(bk_grad_of(x), bk_matmul(g, bk_detach(w))), "the gradient of linear's input");
    tap_ok(same(bk_grad_of(w), bk_mm(bk_transpose(flat_g, 0, 1), flat_x)), "the gradient of its weight");
    tap_ok(same(bk_grad_of(bias), bk_sum(flat_g, 1, false)), "the gradient of its bias");
    tap_ok(products == 4 && copies == 0, "three products, one sum and no copies (%d, %d)", (int)products, (int)copies);

    bk_tensor *a = NUMBERS(1, 4, 4), *ops[] = { a, a };
    bk_set_requires_grad(a, true);
    bk_backward(bk_einsum("ii,ij->", ops, 2), NULL, false, false);
    bk_tensor *d = bk_detach(a);
    bk_tensor *rows = bk_sum(d, 2, false),
              *want = bk_clone(bk_expand(bk_unsqueeze(bk_einsum("ii->i", &d, 1), 1), 2, (int64_t[]){ 4, 4 }));
    bk_tensor *diagonal = bk_as_strided(want, 1, (int64_t[]){ 4 }, (int64_t[]){ 5 }, 0);
    bk_copy_(diagonal, bk_add(diagonal, rows));
    tap_ok(same(bk_grad_of(a), want), "gradients flow through diagonals and sums");
    bk_scope_pop();
}

int main(void)
{
    ranks();
    errors();
    einsums();
    gradients();
    return tap_done();
}
