/* emit_ir.c: what each elementwise op is as vector instructions.
 *
 * The rows here say what ops.def says, for those ops whose value is a few instructions; emit_math.c does so for
 * functions of vmath.h. Invariant: the same roundings in the same order as the kernel of the op, so that the bits are
 * the same (which NaN comes out of two is left open, as compilers leave it). test_emit.c compares every row. */
#include "cpu/emit_ir.h"

#include <string.h>

#include "cpu/emit_math.h"

/* --- nodes ------------------------------------------------------------------------------------------------------- */

/* Cycles until a result is there, as on processors of the last years; 1 where none is given. */
static const uint8_t latency[IR_OP_COUNT] = {
    [IR_ADD] = 4,
    [IR_SUB] = 4,
    [IR_MUL] = 4,
    [IR_DIV] = 14,
    [IR_SQRT] = 18,
    [IR_LEAST] = 4,
    [IR_GREATEST] = 4,
    [IR_ROUND] = 8,
    [IR_MULTIPLY_ADD] = 4,
    [IR_NEGATIVE_ADD] = 4,
    [IR_MULTIPLY_SUBTRACT] = 4,
    [IR_FLOAT_OF_INT] = 4,
    [IR_EXPONENT] = 4,
    [IR_MANTISSA] = 4,
    [IR_SCALE] = 4,
    [IR_COMPARE] = 4,
    [IR_SELECT] = 2,
    [IR_WIDEN] = 7,
    [IR_NARROW] = 7,
};

static int depth_of(const ir_code *code, const ir_node *n)
{
    int deepest = 0;
    for (int k = 0; k < n->operands; k++)
        if (code->depth[n->in[k]] > deepest)
            deepest = code->depth[n->in[k]];
    return deepest + (latency[n->op] ? latency[n->op] : n->operands > 0);
}

void ir_begin(ir_code *code, isa_level level)
{
    code->count = code->deepest = 0;
    code->full = code->masks = code->types[IR_F32] = code->types[IR_F64] = false;
    code->avx512 = level == ISA_AVX512;
}

static int add_node(ir_code *code, ir_node n)
{
    if (code->count == IR_MOST) {
        code->full = true;
        return 0;
    }
    if (n.type == IR_MASK)
        code->masks = true;
    else
        code->types[n.type] = true;
    code->node[code->count] = n;
    code->depth[code->count] = (int16_t)depth_of(code, &n);
    if (code->depth[code->count] > code->deepest)
        code->deepest = code->depth[code->count];
    return code->count++;
}

static int operation(ir_code *code, ir_op op, ir_type type, int detail, int count, int a, int b, int c)
{
    return add_node(code, (ir_node){ .op = (uint8_t)op,
                                     .type = (uint8_t)type,
                                     .detail = (uint8_t)detail,
                                     .operands = (uint8_t)count,
                                     .in = { (int16_t)a, (int16_t)b, (int16_t)c } });
}

static ir_type type_of(const ir_code *code, int v) { return (ir_type)code->node[v].type; }

int ir_unary(ir_code *code, ir_op op, int a) { return operation(code, op, type_of(code, a), 0, 1, a, 0, 0); }
int ir_binary(ir_code *code, ir_op op, int a, int b) { return operation(code, op, type_of(code, a), 0, 2, a, b, 0); }
int ir_ternary(ir_code *code, ir_op op, int a, int b, int c)
{
    return operation(code, op, type_of(code, a), 0, 3, a, b, c);
}
int ir_shift(ir_code *code, ir_op op, int a, int by) { return operation(code, op, type_of(code, a), by, 1, a, 0, 0); }
int ir_compare(ir_code *code, int how, int a, int b) { return operation(code, IR_COMPARE, IR_MASK, how, 2, a, b, 0); }
int ir_select(ir_code *code, int mask, int a, int b)
{
    return operation(code, IR_SELECT, type_of(code, a), 0, 3, mask, a, b);
}

int ir_bits(ir_code *code, ir_type type, uint64_t bits)
{
    for (int i = 0; i < code->count; i++)
        if (code->node[i].op == IR_NUMBER && code->node[i].type == type && code->node[i].bits == bits)
            return i;
    return add_node(code, (ir_node){ .op = IR_NUMBER, .type = (uint8_t)type, .bits = bits });
}

int ir_number(ir_code *code, ir_type type, double v)
{
    float f = (float)v;
    uint64_t bits = 0;
    if (type == IR_F32)
        memcpy(&bits, &f, sizeof f);
    else
        memcpy(&bits, &v, sizeof v);
    return ir_bits(code, type, bits);
}

/* --- rows: float ------------------------------------------------------------------------------------------------- */

typedef int (*ir_row)(ir_code *c, ir_type t, int x, int y, int z);

/* Not every row has all of these operands. */
#define MAYBE     __attribute__((unused))
#define ROW(name) static int name(ir_code *c, MAYBE ir_type t, int x, MAYBE int y, MAYBE int z)

static int number(ir_code *c, ir_type t, double v) { return ir_number(c, t, v); }
static int add(ir_code *c, int a, int b) { return ir_binary(c, IR_ADD, a, b); }
static int sub(ir_code *c, int a, int b) { return ir_binary(c, IR_SUB, a, b); }
static int mul(ir_code *c, int a, int b) { return ir_binary(c, IR_MUL, a, b); }
static int quotient(ir_code *c, int a, int b) { return ir_binary(c, IR_DIV, a, b); }
static int is(ir_code *c, int a, int how, int b) { return ir_compare(c, how, a, b); }
static int sign_bit(ir_code *c, ir_type t) { return number(c, t, -0.0); }
static int rounded(ir_code *c, int x, int how) { return operation(c, IR_ROUND, type_of(c, x), how, 1, x, 0, 0); }
int ir_abs(ir_code *c, int x)
{
    ir_type t = type_of(c, x);
    return ir_binary(c, IR_AND, x, ir_bits(c, t, t == IR_F32 ? INT32_MAX : INT64_MAX));
}
int ir_copysign(ir_code *c, int x, int sign)
{
    int bit = sign_bit(c, type_of(c, x));
    return c->avx512 ? ir_ternary(c, IR_PICK_BITS, x, sign, bit)
                     : ir_binary(c, IR_OR, ir_abs(c, x), ir_binary(c, IR_AND, sign, bit));
}

/* vmath.h's min and max: the processor's give b for NaN and ties; where it is a that is NaN, a it is. */
static int extreme(ir_code *c, ir_op op, int a, int b)
{
    int r = ir_binary(c, op, a, b);
    return ir_select(c, is(c, a, IR_NE, a), a, r);
}
static int least(ir_code *c, int a, int b) { return extreme(c, IR_LEAST, a, b); }
static int greatest(ir_code *c, int a, int b) { return extreme(c, IR_GREATEST, a, b); }
static int relu6(ir_code *c, ir_type t, int x) { return least(c, greatest(c, x, number(c, t, 0)), number(c, t, 6)); }

/* clang-format off */
ROW(row_add) { return add(c, x, y); }
ROW(row_sub) { return sub(c, x, y); }
ROW(row_mul) { return mul(c, x, y); }
ROW(row_div) { return quotient(c, x, y); }
ROW(row_add_scaled) { return add(c, x, mul(c, y, z)); }
ROW(row_sub_scaled) { return sub(c, x, mul(c, y, z)); }
ROW(row_neg) { return ir_binary(c, IR_XOR, x, sign_bit(c, t)); }
ROW(row_abs) { return ir_abs(c, x); }
ROW(row_sign)
{
   
    int zero = number(c, t, 0), below = ir_select(c, is(c, x, IR_LT, zero), number(c, t, -1), zero);
    return ir_select(c, is(c, x, IR_GT, zero), number(c, t, 1), below);
}
ROW(row_square) { return mul(c, x, x); }
ROW(row_cube) { return mul(c, mul(c, x, x), x); }
ROW(row_reciprocal) { return quotient(c, number(c, t, 1), x); }
ROW(row_sqrt) { return ir_unary(c, IR_SQRT, x); }
ROW(row_rsqrt) { return quotient(c, number(c, t, 1), ir_unary(c, IR_SQRT, x)); }
ROW(row_lerp)
{
    int way = sub(c, y, x), one = number(c, t, 1);
    int from_x = add(c, x, mul(c, z, way)), from_y = sub(c, y, mul(c, way, sub(c, one, z)));
    return ir_select(c, is(c, ir_abs(c, z), IR_LT, number(c, t, 0.5)), from_x, from_y);
}
ROW(row_floor) { return rounded(c, x, IR_FLOOR); }
ROW(row_ceil) { return rounded(c, x, IR_CEIL); }
ROW(row_round) { return rounded(c, x, IR_NEAREST); }
ROW(row_trunc) { return rounded(c, x, IR_TRUNC); }
ROW(row_frac) { return sub(c, x, rounded(c, x, IR_TRUNC)); }
ROW(row_tanh_backward) { return mul(c, x, sub(c, number(c, t, 1), mul(c, y, y))); }
ROW(row_sigmoid_backward) { return mul(c, x, mul(c, y, sub(c, number(c, t, 1), y))); }
ROW(row_relu) { return ir_binary(c, IR_GREATEST, number(c, t, 0), x); }
ROW(row_leaky_relu) { return ir_select(c, is(c, x, IR_GT, number(c, t, 0)), x, mul(c, x, y)); }
ROW(row_hardsigmoid) { return quotient(c, relu6(c, t, add(c, x, number(c, t, 3))), number(c, t, 6)); }
ROW(row_hardswish)
{
   
    return quotient(c, mul(c, x, relu6(c, t, add(c, x, number(c, t, 3)))), number(c, t, 6));
}
ROW(row_softsign) { return quotient(c, x, add(c, number(c, t, 1), ir_abs(c, x))); }
ROW(row_minimum) { return least(c, x, y); }
ROW(row_maximum) { return greatest(c, x, y); }
ROW(row_fmin) { return ir_select(c, ir_binary(c, IR_EITHER, is(c, y, IR_NE, y), is(c, x, IR_LE, y)), x, y); }
ROW(row_fmax) { return ir_select(c, ir_binary(c, IR_EITHER, is(c, y, IR_NE, y), is(c, x, IR_GE, y)), x, y); }
ROW(row_clamp) { return least(c, z, greatest(c, y, x)); }
ROW(row_clamp_min) { return greatest(c, y, x); }
ROW(row_clamp_max) { return least(c, y, x); }
ROW(row_eq) { return is(c, x, IR_EQ, y); }
ROW(row_ne) { return is(c, x, IR_NE, y); }
ROW(row_lt) { return is(c, x, IR_LT, y); }
ROW(row_le) { return is(c, x, IR_LE, y); }
ROW(row_gt) { return is(c, x, IR_GT, y); }
ROW(row_ge) { return is(c, x, IR_GE, y); }
ROW(row_where) { return ir_select(c, x, y, z); }
ROW(row_heaviside)
{
   
    int zero = number(c, t, 0), above = ir_select(c, is(c, x, IR_GT, zero), number(c, t, 1), zero);
    return ir_select(c, is(c, x, IR_EQ, zero), y, above);
}
ROW(row_isnan) { return is(c, x, IR_NE, x); }
ROW(row_isinf) { return is(c, ir_abs(c, x), IR_EQ, number(c, t, INFINITY)); }
ROW(row_isfinite) { return is(c, ir_abs(c, x), IR_LT, number(c, t, INFINITY)); }
ROW(row_isposinf) { return is(c, x, IR_EQ, number(c, t, INFINITY)); }
ROW(row_isneginf) { return is(c, x, IR_EQ, number(c, t, -INFINITY)); }
ROW(row_copysign) { return ir_copysign(c, x, y); }

/* --- rows: bool -------------------------------------------------------------------------------------------------- */

ROW(mask_and) { return ir_binary(c, IR_BOTH, x, y); }
ROW(mask_or) { return ir_binary(c, IR_EITHER, x, y); }
ROW(mask_xor) { return ir_binary(c, IR_DIFFER, x, y); }
ROW(mask_not) { return ir_unary(c, IR_NOT, x); }
ROW(mask_equal) { return ir_unary(c, IR_NOT, ir_binary(c, IR_DIFFER, x, y)); }
ROW(mask_less) { return ir_binary(c, IR_BOTH, ir_unary(c, IR_NOT, x), y); }
ROW(mask_less_equal) { return ir_binary(c, IR_EITHER, ir_unary(c, IR_NOT, x), y); }
ROW(mask_greater) { return mask_less(c, t, y, x, z); }
ROW(mask_greater_equal) { return mask_less_equal(c, t, y, x, z); }
ROW(mask_where)
{
    return ir_binary(c, IR_EITHER, ir_binary(c, IR_BOTH, x, y), ir_binary(c, IR_BOTH, ir_unary(c, IR_NOT, x), z));
}
/* clang-format on */

static const ir_row float_rows[EW_COUNT] = {
    [EW_add] = row_add,
    [EW_sub] = row_sub,
    [EW_add_scaled] = row_add_scaled,
    [EW_sub_scaled] = row_sub_scaled,
    [EW_mul] = row_mul,
    [EW_div] = row_div,
    [EW_neg] = row_neg,
    [EW_abs] = row_abs,
    [EW_sign] = row_sign,
    [EW_square] = row_square,
    [EW_cube] = row_cube,
    [EW_reciprocal] = row_reciprocal,
    [EW_sqrt] = row_sqrt,
    [EW_rsqrt] = row_rsqrt,
    [EW_lerp] = row_lerp,
    [EW_floor] = row_floor,
    [EW_ceil] = row_ceil,
    [EW_round] = row_round,
    [EW_trunc] = row_trunc,
    [EW_frac] = row_frac,
    [EW_tanh_backward] = row_tanh_backward,
    [EW_sigmoid_backward] = row_sigmoid_backward,
    [EW_relu] = row_relu,
    [EW_leaky_relu] = row_leaky_relu,
    [EW_hardsigmoid] = row_hardsigmoid,
    [EW_hardswish] = row_hardswish,
    [EW_softsign] = row_softsign,
    [EW_minimum] = row_minimum,
    [EW_maximum] = row_maximum,
    [EW_fmin] = row_fmin,
    [EW_fmax] = row_fmax,
    [EW_clamp] = row_clamp,
    [EW_cut] = row_clamp,
    [EW_clamp_min] = row_clamp_min,
    [EW_clamp_max] = row_clamp_max,
    [EW_eq] = row_eq,
    [EW_ne] = row_ne,
    [EW_lt] = row_lt,
    [EW_le] = row_le,
    [EW_gt] = row_gt,
    [EW_ge] = row_ge,
    [EW_where] = row_where,
    [EW_heaviside] = row_heaviside,
    [EW_isnan] = row_isnan,
    [EW_isinf] = row_isinf,
    [EW_isfinite] = row_isfinite,
    [EW_isposinf] = row_isposinf,
    [EW_isneginf] = row_isneginf,
    [EW_copysign] = row_copysign,
};

/* Functions of vmath.h: of float32, of float64. */
static const ir_row function_rows[EW_COUNT][2] = {
    [EW_exp] = { ir_exp, ir_exp_d },    [EW_sigmoid] = { ir_sigmoid, ir_sigmoid_d },
    [EW_tanh] = { ir_tanh, ir_tanh_d }, [EW_log] = { ir_log, ir_log_d },
    [EW_erf] = { ir_erf, NULL },        [EW_erfc] = { ir_erfc, NULL },
    [EW_gelu] = { ir_gelu, NULL },      [EW_gelu_slope] = { ir_gelu_slope, NULL },
    [EW_expm1] = { ir_expm1, NULL },    [EW_log1p] = { ir_log1p, NULL },
    [EW_silu] = { ir_silu, NULL },      [EW_logsigmoid] = { ir_logsigmoid, NULL },
    [EW_elu] = { ir_elu, NULL },        [EW_celu] = { ir_celu, NULL },
    [EW_selu] = { ir_selu, NULL },      [EW_softplus] = { ir_softplus, NULL },
    [EW_log2] = { ir_log2, NULL },      [EW_log10] = { ir_log10, NULL },
    [EW_atan] = { ir_atan, NULL },      [EW_asin] = { ir_asin, NULL },
    [EW_acos] = { ir_acos, NULL },      [EW_exp2] = { ir_exp2, NULL },
    [EW_erfinv] = { ir_erfinv, NULL },  [EW_logit] = { ir_logit, NULL },
    [EW_xlogy] = { ir_xlogy, NULL },
};

static const ir_row bool_rows[EW_COUNT] = {
    [EW_add] = mask_or,        [EW_mul] = mask_and,          [EW_minimum] = mask_and,     [EW_maximum] = mask_or,
    [EW_fmin] = mask_and,      [EW_fmax] = mask_or,          [EW_clamp_min] = mask_or,    [EW_clamp_max] = mask_and,
    [EW_eq] = mask_equal,      [EW_ne] = mask_xor,           [EW_lt] = mask_less,         [EW_le] = mask_less_equal,
    [EW_gt] = mask_greater,    [EW_ge] = mask_greater_equal, [EW_where] = mask_where,     [EW_logical_and] = mask_and,
    [EW_logical_or] = mask_or, [EW_logical_xor] = mask_xor,  [EW_logical_not] = mask_not, [EW_bitwise_and] = mask_and,
    [EW_bitwise_or] = mask_or, [EW_bitwise_xor] = mask_xor,  [EW_bitwise_not] = mask_not,
};

/* --- steps ------------------------------------------------------------------------------------------------------- */

static const ir_type type_of_compute[COMPUTE_COUNT] = { IR_F32, IR_F64, IR_MASK, IR_MASK };

/* The type that holds the dtype in registers; -1 where there is none. */
static int type_of_dtype(int d)
{
    return d == BK_FLOAT32 ? IR_F32 : d == BK_FLOAT64 ? IR_F64 : d == BK_BOOL ? IR_MASK : -1;
}

static ir_row row_of(const ew_step *s)
{
    if (s->type == COMPUTE_I64)
        return NULL;
    if (s->type == COMPUTE_BOOL)
        return bool_rows[s->op];
    const ir_row function = function_rows[s->op][s->type == COMPUTE_F64];
    return function ? function : float_rows[s->op];
}

bool ir_knows(const ew_step *s)
{
    switch ((ew_step_kind)s->kind) {
    case EW_STEP_OP: return row_of(s) != NULL;
    case EW_STEP_PAIR: return true;
    case EW_STEP_TWIN: return s->op == EW_gelu && s->second == EW_gelu_slope && s->type == COMPUTE_F32;
    case EW_STEP_CAST: return type_of_dtype(s->op) >= 0 && type_of_dtype(s->second) >= 0;
    default: return false;
    }
}

static int read_place(ir_code *code, ir_places *at, int32_t place, ir_type type)
{
    if (at->value[place] == IR_NONE) {
        bool repeated = place < at->program->ports && at->repeated[place];
        at->value[place] = (int16_t)add_node(
            code, (ir_node){ .op = repeated ? IR_REPEAT : IR_LOAD, .type = (uint8_t)type, .place = place });
    }
    return at->value[place];
}

static void write_place(ir_code *code, ir_places *at, int32_t place, int v)
{
    at->value[place] = (int16_t)v;
    if (place < at->program->ports)
        ir_keep(code, at, place);
}

void ir_keep(ir_code *code, ir_places *at, int32_t place)
{
    int v = at->value[place];
    add_node(
        code,
        (ir_node){ .op = IR_STORE, .type = code->node[v].type, .operands = 1, .in = { (int16_t)v }, .place = place });
}

static int converted(ir_code *code, int x, ir_type from, ir_type to)
{
    if (from == to)
        return x;
    if (to == IR_MASK)
        return is(code, x, IR_NE, number(code, from, 0));
    if (from == IR_MASK)
        return ir_select(code, x, number(code, to, 1), number(code, to, 0));
    return operation(code, to == IR_F64 ? IR_WIDEN : IR_NARROW, to, 0, 1, x, 0, 0);
}

static int paired(ir_code *code, const ew_step *s, int x, int y, int z)
{
    static const ir_op ops[] = { [EW_PAIR_add] = IR_ADD, [EW_PAIR_sub] = IR_SUB, [EW_PAIR_mul] = IR_MUL };
    int first = ir_binary(code, ops[s->op], x, y);
    return s->second == EW_PAIR_from ? sub(code, z, first) : ir_binary(code, ops[s->second], first, z);
}

void ir_add_step(ir_code *code, ir_places *at, const ew_step *s)
{
    if (s->kind == EW_STEP_CAST) {
        ir_type from = (ir_type)type_of_dtype(s->op), to = (ir_type)type_of_dtype(s->second);
        write_place(code, at, s->to, converted(code, read_place(code, at, s->x, from), from, to));
        return;
    }
    ir_type t = type_of_compute[s->type];
    if (s->kind == EW_STEP_TWIN) {
        int second, first = ir_gelu_both(code, read_place(code, at, s->x, t), &second);
        write_place(code, at, s->to, first);
        write_place(code, at, s->y, second);
        return;
    }
    const bool pair = s->kind == EW_STEP_PAIR;
    const int arity = pair ? 3 : ew_infos[s->op].arity;
    const bool selects = !pair && ew_infos[s->op].rule == EW_SELECT;
    int x = read_place(code, at, s->x, selects ? IR_MASK : t);
    int y = arity > 1 ? read_place(code, at, s->y, t) : 0, z = arity > 2 ? read_place(code, at, s->z, t) : 0;
    write_place(code, at, s->to, pair ? paired(code, s, x, y, z) : row_of(s)(code, t, x, y, z));
}

/* --- several vectors at a time ----------------------------------------------------------------------------------- */

bool ir_interleave(ir_code *out, const ir_code *code, int copies)
{
    int16_t as[IR_MOST][2]; /* what a node is in `out`, per copy */
    ir_begin(out, ISA_AVX512);
    if (copies > 2 || code->count * copies > IR_MOST)
        return false;
    for (int i = 0; i < code->count; i++) {
        const bool shared = code->node[i].op == IR_NUMBER || code->node[i].op == IR_REPEAT;
        for (int c = 0; c < copies; c++) {
            ir_node n = code->node[i];
            n.copy = (uint8_t)c;
            for (int k = 0; k < n.operands; k++)
                n.in[k] = as[n.in[k]][c];
            as[i][c] = shared && c ? as[i][0] : (int16_t)add_node(out, n);
        }
    }
    return true;
}
