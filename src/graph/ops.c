/* ops.c: one table of what is known about every op, from ops.def and nodes.def.
 *
 * Which values a gradient needs is read off its own text in ops.def, once: a gradient that does not name an operand
 * does not keep it alive. */
#include <ctype.h>
#include <string.h>

#include "autograd/rules.h"
#include "core/node.h"
#include "graph/kernels.h"

op_info op_infos[OP_COUNT] = {
#define NODE(id, kind_, grad_name_, run_, gradient_, n0, n1, n2)                                                       \
    [OP_##id] = { .name = #id,                                                                                         \
                  .grad_name = grad_name_,                                                                             \
                  .kind = kind_,                                                                                       \
                  .run = run_,                                                                                         \
                  .gradient = gradient_,                                                                               \
                  .needs = { n0, n1, n2 } },
#include "graph/nodes.def"
#undef NODE
};

static bool mentions(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += n) {
        bool starts = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        bool ends = !(isalnum((unsigned char)at[n]) || at[n] == '_');
        if (starts && ends)
            return true;
    }
    return false;
}

static uint8_t needs_of(const char *gradient)
{
    return (uint8_t)((mentions(gradient, "x") ? 1 : 0) | (mentions(gradient, "y") ? 2 : 0) |
                     (mentions(gradient, "z") ? 4 : 0) | (mentions(gradient, "out") ? NEEDS_OUT : 0));
}

/* "add" -> "AddBackward0", "leaky_relu" -> "LeakyReluBackward0" */
static void backward_name(char *to, const char *name)
{
    bool upper = true;
    for (; *name; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        *to++ = upper ? (char)toupper((unsigned char)*name) : *name;
        upper = false;
    }
    strcpy(to, "Backward0");
}

/* Rows that are one op in PyTorch. */
static const struct {
    int op;
    const char *name;
} backward_names[] = {
    { EW_add_scaled, "AddBackward0" },   { EW_sub_scaled, "SubBackward0" },     { EW_gelu_tanh, "GeluBackward0" },
    { EW_square, "PowBackward0" },       { EW_trigamma, "PolygammaBackward0" }, { EW_erfcx, "SpecialErfcxBackward0" },
    { EW_zeta, "SpecialZetaBackward0" }, { EW_log1p, "Log1PBackward0" },        { EW_cube, "PowBackward0" },
    { EW_heaviside, "NotImplemented" },
};

/* Inputs that are no operands of PyTorch's function: where to read or write, and results that the gradient reads. */
static const struct {
    uint16_t first, last; /* a range of ops */
    uint8_t inputs;
} constants[] = {
    { OP_gather, OP_gather, 2 },           { OP_scatter, OP_scatter_reduce, 4 },    { OP_index_get, OP_take, 2 },
    { OP_index_put, OP_index_copy, 4 },    { OP_index_fill, OP_index_fill, 6 },     { OP_put, OP_put, 4 },
    { OP_mask_select, OP_mask_select, 2 }, { OP_mask_scatter, OP_mask_scatter, 4 }, { OP_norm, OP_median, 2 },
    { EW_add_scaled, EW_sub_scaled, 4 },   { EW_heaviside, EW_heaviside, 3 }, /* PyTorch's leads to those that require
                                                                                 gradients */
    { OP_lu_solve, OP_lu_solve, 4 },       { OP_inverse, OP_lu_factor, 6 },         { OP_pick, OP_place, 2 },
};

__attribute__((constructor)) static void fill_elementwise(void)
{
    static char names[EW_COUNT][40];
    for (int op = 0; op < EW_COUNT; op++) {
        const ew_info *row = &ew_infos[op];
        backward_name(names[op], row->name);
        op_infos[op] = (op_info){ .name = row->name, .grad_name = names[op], .kind = KIND_ELEMENTWISE };
        for (int k = 0; k < row->arity; k++) {
            if (!strcmp(row->gradient[k], "NONDIFF")) {
                op_infos[op].constants |= (uint8_t)(1 << k);
                continue;
            }
            op_infos[op].gradient = grad_elementwise;
            op_infos[op].needs[k] = needs_of(row->gradient[k]);
        }
    }
    for (size_t i = 0; i < sizeof backward_names / sizeof *backward_names; i++)
        op_infos[backward_names[i].op].grad_name = backward_names[i].name;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        for (int op = constants[i].first; op <= constants[i].last; op++)
            op_infos[op].constants = constants[i].inputs;
}
