/* test_format.c: printed tensors, compared with the texts that PyTorch 2.13 prints. */
#include "core/format.h"
#include "core/memory.h"

#include "tap.h"

#include <math.h>
#include <string.h>

enum { MOST_VALUES = 10, MOST_ELEMENTS = 4096 };

typedef struct format_case {
    const char *name;
    bk_dtype dtype;
    int ndim;
    int64_t sizes[4];
    double step; /* element i is i * step; 0: the elements are `values` */
    double values[MOST_VALUES];
    format_options options; /* all zero: the defaults */
    const char *extra;
    bk_dtype default_float;
    const char *expected;
} format_case;

/* clang-format off */
static const format_case cases[] = {
    { "a scalar", BK_FLOAT32, 0, { 0 },
      .values = { 1.5 },
      .expected =
        "tensor(1.5000)" },
    { "a scalar that is whole", BK_FLOAT32, 0, { 0 },
      .values = { 3.0 },
      .expected =
        "tensor(3.)" },
    { "an integer scalar", BK_INT64, 0, { 0 },
      .values = { -7.0 },
      .expected =
        "tensor(-7)" },
    { "a boolean scalar", BK_BOOL, 0, { 0 },
      .values = { 1.0 },
      .expected =
        "tensor(True)" },
    { "zero", BK_FLOAT32, 0, { 0 },
      .values = { 0.0 },
      .expected =
        "tensor(0.)" },
    { "whole numbers have a point", BK_FLOAT32, 1, { 3 },
      .values = { 1.0, 2.0, -3.0 },
      .expected =
        "tensor([ 1.,  2., -3.])" },
    { "fixed point with a common width", BK_FLOAT32, 1, { 3 },
      .values = { 1.0, 2.5, -10.25 },
      .expected =
        "tensor([  1.0000,   2.5000, -10.2500])" },
    { "negative zero, infinities and nan", BK_FLOAT32, 1, { 5 },
      .values = { -0.0, INFINITY, -INFINITY, NAN, 1.0 },
      .expected =
        "tensor([-0., inf, -inf, nan, 1.])" },
    { "infinities and nan beside a fraction", BK_FLOAT32, 1, { 4 },
      .values = { 0.5, INFINITY, -INFINITY, NAN },
      .expected =
        "tensor([0.5000,    inf,   -inf,    nan])" },
    { "nothing but zeros and nan", BK_FLOAT32, 1, { 3 },
      .values = { 0.0, NAN, -0.0 },
      .expected =
        "tensor([0., nan, -0.])" },
    { "scientific for a wide range", BK_FLOAT32, 1, { 3 },
      .values = { 0.001, 2.0, 1234.5 },
      .expected =
        "tensor([1.0000e-03, 2.0000e+00, 1.2345e+03])" },
    { "scientific for large numbers", BK_FLOAT32, 1, { 2 },
      .values = { 1.0, 1000000000.0 },
      .expected =
        "tensor([1.0000e+00, 1.0000e+09])" },
    { "scientific for small numbers", BK_FLOAT32, 1, { 2 },
      .values = { 1e-05, 2e-05 },
      .expected =
        "tensor([1.0000e-05, 2.0000e-05])" },
    { "whole numbers go scientific too", BK_FLOAT32, 1, { 2 },
      .values = { 1.0, 2000.0 },
      .expected =
        "tensor([1.0000e+00, 2.0000e+03])" },
    { "just not scientific", BK_FLOAT32, 1, { 2 },
      .values = { 1.0, 1000.0 },
      .expected =
        "tensor([   1., 1000.])" },
    { "exponents of three digits", BK_FLOAT64, 1, { 2 },
      .values = { 1e-300, 1e+200 },
      .expected =
        "tensor([1.0000e-300, 1.0000e+200], dtype=torch.float64)" },
    { "float64 is named", BK_FLOAT64, 1, { 2 },
      .values = { 1.0, 2.0 },
      .expected =
        "tensor([1., 2.], dtype=torch.float64)" },
    { "float64 as the default is not", BK_FLOAT64, 1, { 2 },
      .values = { 1.0, 2.0 }, .default_float = BK_FLOAT64,
      .expected =
        "tensor([1., 2.])" },
    { "float32 is then", BK_FLOAT32, 1, { 2 },
      .values = { 1.0, 2.0 }, .default_float = BK_FLOAT64,
      .expected =
        "tensor([1., 2.], dtype=torch.float32)" },
    { "float16", BK_FLOAT16, 1, { 3 },
      .values = { 0.1, 65504.0, -2.0 },
      .expected =
        "tensor([ 9.9976e-02,  6.5504e+04, -2.0000e+00], dtype=torch.float16)" },
    { "bfloat16", BK_BFLOAT16, 1, { 3 },
      .values = { 0.1, 3.14159, -2.0 },
      .expected =
        "tensor([ 0.1001,  3.1406, -2.0000], dtype=torch.bfloat16)" },
    { "int64 needs no name", BK_INT64, 1, { 3 },
      .values = { 1.0, -20.0, 300.0 },
      .expected =
        "tensor([  1, -20, 300])" },
    { "int32", BK_INT32, 1, { 3 },
      .values = { 1.0, -20.0, 300.0 },
      .expected =
        "tensor([  1, -20, 300], dtype=torch.int32)" },
    { "int8", BK_INT8, 1, { 2 },
      .values = { 1.0, -128.0 },
      .expected =
        "tensor([   1, -128], dtype=torch.int8)" },
    { "uint8", BK_UINT8, 1, { 2 },
      .values = { 1.0, 255.0 },
      .expected =
        "tensor([  1, 255], dtype=torch.uint8)" },
    { "booleans are padded", BK_BOOL, 1, { 3 },
      .values = { 1.0, 0.0, 1.0 },
      .expected =
        "tensor([ True, False,  True])" },
    { "a matrix", BK_INT64, 2, { 2, 3 },
      .values = { 1.0, 2.0, 3.0, 4.0, 5.0, 6.0 },
      .expected =
        "tensor([[1, 2, 3],\n"
        "        [4, 5, 6]])" },
    { "three dimensions", BK_FLOAT32, 3, { 2, 2, 2 },
      .step = 0.5,
      .expected =
        "tensor([[[0.0000, 0.5000],\n"
        "         [1.0000, 1.5000]],\n"
        "\n"
        "        [[2.0000, 2.5000],\n"
        "         [3.0000, 3.5000]]])" },
    { "four dimensions", BK_INT64, 4, { 2, 1, 2, 2 },
      .step = 1,
      .expected =
        "tensor([[[[0, 1],\n"
        "          [2, 3]]],\n"
        "\n"
        "\n"
        "        [[[4, 5],\n"
        "          [6, 7]]]])" },
    { "a dimension of one", BK_FLOAT32, 3, { 1, 2, 1 },
      .values = { 1.0, 2.0 },
      .expected =
        "tensor([[[1.],\n"
        "         [2.]]])" },
    { "empty", BK_FLOAT32, 1, { 0 },
      .values = { 0.0 },
      .expected =
        "tensor([])" },
    { "empty with a shape", BK_FLOAT32, 2, { 2, 0 },
      .values = { 0.0 },
      .expected =
        "tensor([], size=(2, 0))" },
    { "empty integers are named", BK_INT64, 1, { 0 },
      .values = { 0.0 },
      .expected =
        "tensor([], dtype=torch.int64)" },
    { "an empty batch of booleans", BK_BOOL, 3, { 0, 3, 2 },
      .values = { 0.0 },
      .expected =
        "tensor([], size=(0, 3, 2), dtype=torch.bool)" },
    { "long vectors are broken into lines", BK_FLOAT32, 1, { 30 },
      .step = 1,
      .expected =
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
        "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
        "        28., 29.])" },
    { "integers in lines", BK_INT64, 1, { 40 },
      .step = 37,
      .expected =
        "tensor([   0,   37,   74,  111,  148,  185,  222,  259,  296,  333,  370,  407,\n"
        "         444,  481,  518,  555,  592,  629,  666,  703,  740,  777,  814,  851,\n"
        "         888,  925,  962,  999, 1036, 1073, 1110, 1147, 1184, 1221, 1258, 1295,\n"
        "        1332, 1369, 1406, 1443])" },
    { "rows are broken too", BK_FLOAT32, 2, { 2, 14 },
      .step = 0.25,
      .expected =
        "tensor([[0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500, 2.0000,\n"
        "         2.2500, 2.5000, 2.7500, 3.0000, 3.2500],\n"
        "        [3.5000, 3.7500, 4.0000, 4.2500, 4.5000, 4.7500, 5.0000, 5.2500, 5.5000,\n"
        "         5.7500, 6.0000, 6.2500, 6.5000, 6.7500]])" },
    { "more than a thousand elements are summarised", BK_INT64, 1, { 1001 },
      .step = 1,
      .expected =
        "tensor([   0,    1,    2,  ...,  998,  999, 1000])" },
    { "a thousand are not, with edges", BK_INT64, 1, { 10 },
      .step = 1, .options = { 4, 9, 3, 80, -1 },
      .expected =
        "tensor([0, 1, 2,  ..., 7, 8, 9])" },
    { "a summarised matrix", BK_FLOAT32, 2, { 40, 40 },
      .step = 1,
      .expected =
        "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 3.7000e+01, 3.8000e+01,\n"
        "         3.9000e+01],\n"
        "        [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 7.7000e+01, 7.8000e+01,\n"
        "         7.9000e+01],\n"
        "        [8.0000e+01, 8.1000e+01, 8.2000e+01,  ..., 1.1700e+02, 1.1800e+02,\n"
        "         1.1900e+02],\n"
        "        ...,\n"
        "        [1.4800e+03, 1.4810e+03, 1.4820e+03,  ..., 1.5170e+03, 1.5180e+03,\n"
        "         1.5190e+03],\n"
        "        [1.5200e+03, 1.5210e+03, 1.5220e+03,  ..., 1.5570e+03, 1.5580e+03,\n"
        "         1.5590e+03],\n"
        "        [1.5600e+03, 1.5610e+03, 1.5620e+03,  ..., 1.5970e+03, 1.5980e+03,\n"
        "         1.5990e+03]])" },
    { "a summarised batch", BK_INT64, 3, { 8, 2, 8 },
      .step = 1, .options = { 4, 10, 3, 80, -1 },
      .expected =
        "tensor([[[  0,   1,   2,  ...,   5,   6,   7],\n"
        "         [  8,   9,  10,  ...,  13,  14,  15]],\n"
        "\n"
        "        [[ 16,  17,  18,  ...,  21,  22,  23],\n"
        "         [ 24,  25,  26,  ...,  29,  30,  31]],\n"
        "\n"
        "        [[ 32,  33,  34,  ...,  37,  38,  39],\n"
        "         [ 40,  41,  42,  ...,  45,  46,  47]],\n"
        "\n"
        "        ...,\n"
        "\n"
        "        [[ 80,  81,  82,  ...,  85,  86,  87],\n"
        "         [ 88,  89,  90,  ...,  93,  94,  95]],\n"
        "\n"
        "        [[ 96,  97,  98,  ..., 101, 102, 103],\n"
        "         [104, 105, 106,  ..., 109, 110, 111]],\n"
        "\n"
        "        [[112, 113, 114,  ..., 117, 118, 119],\n"
        "         [120, 121, 122,  ..., 125, 126, 127]]])" },
    { "a short dimension is shown in full", BK_INT32, 2, { 3, 1000 },
      .step = 1,
      .expected =
        "tensor([[   0,    1,    2,  ...,  997,  998,  999],\n"
        "        [1000, 1001, 1002,  ..., 1997, 1998, 1999],\n"
        "        [2000, 2001, 2002,  ..., 2997, 2998, 2999]], dtype=torch.int32)" },
    { "the hidden numbers have no say in the style", BK_FLOAT32, 1, { 2000 },
      .step = 0.5,
      .expected =
        "tensor([0.0000e+00, 5.0000e-01, 1.0000e+00,  ..., 9.9850e+02, 9.9900e+02,\n"
        "        9.9950e+02])" },
    { "requires_grad", BK_FLOAT32, 1, { 1 },
      .values = { 1.0 }, .extra = "requires_grad=True",
      .expected =
        "tensor([1.], requires_grad=True)" },
    { "grad_fn", BK_FLOAT32, 1, { 1 },
      .values = { 1.0 }, .extra = "grad_fn=<AddBackward0>",
      .expected =
        "tensor([1.], grad_fn=<AddBackward0>)" },
    { "dtype before requires_grad", BK_FLOAT64, 1, { 1 },
      .values = { 1.0 }, .extra = "requires_grad=True",
      .expected =
        "tensor([1.], dtype=torch.float64, requires_grad=True)" },
    { "what does not fit on the line goes on the next", BK_FLOAT64, 1, { 9 },
      .step = 0.125, .extra = "requires_grad=True",
      .expected =
        "tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000],\n"
        "       dtype=torch.float64, requires_grad=True)" },
    { "each item for itself", BK_FLOAT64, 1, { 8 },
      .values = { 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125 }, .extra = "grad_fn=<AddBackward0>",
      .expected =
        "tensor([0.1250, 0.1250, 0.1250, 0.1250, 0.1250, 0.1250, 0.1250, 0.1250],\n"
        "       dtype=torch.float64, grad_fn=<AddBackward0>)" },
    { "precision", BK_FLOAT32, 1, { 2 },
      .values = { 3.141592653589793, 1.0 }, .options = { 8, 1000, 3, 80, -1 },
      .expected =
        "tensor([3.14159274, 1.00000000])" },
    { "precision 0", BK_FLOAT32, 1, { 2 },
      .values = { 3.141592653589793, 1.0 }, .options = { 0, 1000, 3, 80, -1 },
      .expected =
        "tensor([3, 1])" },
    { "scientific on demand", BK_FLOAT32, 1, { 2 },
      .values = { 1.0, 2.0 }, .options = { 4, 1000, 3, 80, 1 },
      .expected =
        "tensor([1.0000e+00, 2.0000e+00])" },
    { "never scientific", BK_FLOAT32, 1, { 2 },
      .values = { 1e-06, 1000000000.0 }, .options = { 4, 1000, 3, 80, 0 },
      .expected =
        "tensor([         0.0000, 1000000000.0000])" },
    { "a narrow line", BK_FLOAT32, 1, { 3 },
      .values = { 1.5, 2.5, 3.5 }, .options = { 4, 1000, 3, 10, -1 },
      .expected =
        "tensor([1.5000,\n"
        "        2.5000,\n"
        "        3.5000])" },
    { "no edges at all", BK_FLOAT32, 2, { 3, 4 },
      .step = 1, .options = { 4, 5, 0, 80, -1 },
      .expected =
        "tensor([...], size=(3, 4))" },
    { "no edges, but short enough", BK_FLOAT32, 1, { 4 },
      .step = 1, .options = { 4, 1000, 0, 80, -1 },
      .expected =
        "tensor([0., 1., 2., 3.], size=(4,))" },
    { "the short profile", BK_FLOAT32, 1, { 2 },
      .values = { 0.3333333333333333, 0.6666666666666666 }, .options = { 2, 1000, 2, 80, -1 },
      .expected =
        "tensor([0.33, 0.67])" },
    { "edge items", BK_FLOAT32, 2, { 5, 50 },
      .step = 1, .options = { 4, 100, 2, 80, -1 },
      .expected =
        "tensor([[  0.,   1.,  ...,  48.,  49.],\n"
        "        [ 50.,  51.,  ...,  98.,  99.],\n"
        "        ...,\n"
        "        [150., 151.,  ..., 198., 199.],\n"
        "        [200., 201.,  ..., 248., 249.]])" },
    { "the full profile", BK_INT64, 2, { 15, 10 },
      .step = 1, .options = { 4, INT64_MAX, 3, 80, -1 },
      .expected =
        "tensor([[  0,   1,   2,   3,   4,   5,   6,   7,   8,   9],\n"
        "        [ 10,  11,  12,  13,  14,  15,  16,  17,  18,  19],\n"
        "        [ 20,  21,  22,  23,  24,  25,  26,  27,  28,  29],\n"
        "        [ 30,  31,  32,  33,  34,  35,  36,  37,  38,  39],\n"
        "        [ 40,  41,  42,  43,  44,  45,  46,  47,  48,  49],\n"
        "        [ 50,  51,  52,  53,  54,  55,  56,  57,  58,  59],\n"
        "        [ 60,  61,  62,  63,  64,  65,  66,  67,  68,  69],\n"
        "        [ 70,  71,  72,  73,  74,  75,  76,  77,  78,  79],\n"
        "        [ 80,  81,  82,  83,  84,  85,  86,  87,  88,  89],\n"
        "        [ 90,  91,  92,  93,  94,  95,  96,  97,  98,  99],\n"
        "        [100, 101, 102, 103, 104, 105, 106, 107, 108, 109],\n"
        "        [110, 111, 112, 113, 114, 115, 116, 117, 118, 119],\n"
        "        [120, 121, 122, 123, 124, 125, 126, 127, 128, 129],\n"
        "        [130, 131, 132, 133, 134, 135, 136, 137, 138, 139],\n"
        "        [140, 141, 142, 143, 144, 145, 146, 147, 148, 149]])" },
};
/* clang-format on */

static double memory[MOST_ELEMENTS]; /* aligned for every dtype */

static view view_of(const format_case *c)
{
    view v = { .data = (char *)memory, .dtype = c->dtype, .ndim = c->ndim };
    int64_t stride = 1;
    for (int d = c->ndim - 1; d >= 0; d--) {
        v.sizes[d] = c->sizes[d];
        v.strides[d] = stride;
        stride *= c->sizes[d];
    }
    for (int64_t i = 0; i < view_numel(&v); i++)
        dtype_store_double(c->dtype, v.data + i * (int64_t)dtype_size(c->dtype),
                           c->step != 0 ? (double)i * c->step : c->values[i]);
    return v;
}

static char *print_case(const format_case *c)
{
    view v = view_of(c);
    const format_options *o = c->options.linewidth ? &c->options : &format_default;
    return format_tensor(&v, o, "tensor(", c->default_float, c->extra);
}

static void show_difference(const char *expected, const char *got)
{
    printf("# expected %s\n# got %s\n", expected, got);
}

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = print_case(&cases[i]);
        bool equal = got && strcmp(got, cases[i].expected) == 0;
        tap_ok(equal, "%s", cases[i].name);
        if (!equal)
            show_difference(cases[i].expected, got ? got : "NULL");
        mem_free(got);
    }
}

static void test_strides(void)
{
    int32_t data[6] = { 1, 2, 3, 4, 5, 6 };
    view v = { (char *)data, BK_INT32, 2, { 3, 2 }, { 1, 3 } };
    char *got = format_tensor(&v, &format_default, "tensor(", BK_FLOAT32, NULL);
    tap_ok(strcmp(got, "tensor([[1, 4],\n        [2, 5],\n        [3, 6]], dtype=torch.int32)") == 0,
           "a transposed view");
    mem_free(got);
    view reversed = { (char *)(data + 5), BK_INT32, 1, { 3 }, { -2 } };
    got = format_tensor(&reversed, &format_default, "Label(", BK_FLOAT32, NULL);
    tap_ok(strcmp(got, "Label([6, 4, 2], dtype=torch.int32)") == 0, "a view backwards, with a prefix of its own");
    mem_free(got);
    float nan_with_sign = -NAN;
    view scalar = { (char *)&nan_with_sign, BK_FLOAT32, 0, { 0 }, { 0 } };
    got = format_tensor(&scalar, &format_default, "tensor(", BK_FLOAT32, NULL);
    tap_ok(strcmp(got, "tensor(nan)") == 0, "nan has no sign");
    mem_free(got);
}

static void test_out_of_memory(void)
{
    int64_t live = mem_live();
    bool failed_well = true, finished = false;
    const format_case *last = &cases[sizeof cases / sizeof *cases - 1];
    for (int n = 1; n < 100 && !finished; n++) {
        mem_fail_after(n);
        char *got = print_case(last);
        mem_fail_after(0);
        finished = got != NULL;
        failed_well &= finished || bk_error_code() == BK_MEMORY_ERROR;
        failed_well &= !finished || (n > 3 && strcmp(got, last->expected) == 0);
        bk_error_clear();
        mem_free(got);
    }
    tap_ok(failed_well && finished, "every allocation may fail");
    tap_ok(mem_live() == live, "and nothing leaks");
}

int main(void)
{
    test_cases();
    test_strides();
    test_out_of_memory();
    return tap_done();
}
