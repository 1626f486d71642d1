/* format.c: the printed form of a tensor, as PyTorch 2.13's torch/_tensor_str.py defines it.
 *
 * All numbers of a tensor share one style: integers with a point (1., 2.), fixed point or scientific, and one width.
 * The style follows from the numbers that are printed, so the elements are visited three times: for their range, for
 * their width, and to be written. A large tensor is summarised to the edges of each dimension first.
 * Invariant: a text that ran out of memory stays as it was, and every later addition to it does nothing. */
#include "core/format.h"
#include "core/error.h"
#include "core/memory.h"

#include <locale.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const format_options format_default = {
    .precision = 4, .threshold = 1000, .edgeitems = 3, .linewidth = 80, .sci_mode = -1
};

/* --- text that grows --------------------------------------------------------------------------------------- */

typedef struct text {
    char *bytes; /* NULL once memory is out */
    size_t length, capacity;
} text;

static text text_new(void)
{
    enum { FIRST_BYTES = 256 };
    return (text){ .bytes = mem_alloc(FIRST_BYTES), .capacity = FIRST_BYTES };
}

static bool text_reserve(text *t, size_t more)
{
    if (t->bytes && t->length + more > t->capacity) {
        size_t capacity = 2 * (t->length + more);
        char *bytes = mem_resize(t->bytes, capacity);
        if (!bytes)
            mem_free(t->bytes);
        t->bytes = bytes;
        t->capacity = capacity;
    }
    return t->bytes != NULL;
}

static void text_append(text *t, const char *bytes, size_t count)
{
    if (!text_reserve(t, count + 1))
        return;
    memcpy(t->bytes + t->length, bytes, count);
    t->length += count;
    t->bytes[t->length] = '\0';
}

static void text_add(text *t, const char *string) { text_append(t, string, strlen(string)); }

static void text_repeat(text *t, char c, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        text_append(t, &c, 1);
}

__attribute__((format(printf, 2, 3))) static void text_print(text *t, const char *format, ...)
{
    if (!t->bytes)
        return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t space = t->capacity - t->length;
    size_t count = (size_t)vsnprintf(t->bytes + t->length, space, format, args);
    if (count >= space && text_reserve(t, count + 1))
        vsnprintf(t->bytes + t->length, count + 1, format, again);
    if (t->bytes)
        t->length += count;
    va_end(again);
    va_end(args);
}

/* --- which elements are printed ---------------------------------------------------------------------------- */

typedef struct printer {
    const view *v;
    const format_options *o;
    bool summarize;
    text out;
    text number; /* the number at hand */

    bool is_float, is_bool;
    bool whole; /* all finite numbers are integers */
    bool scientific;
    double smallest, largest; /* of the finite magnitudes other than zero */
    int64_t width;
} printer;

static bool is_folded(const printer *p, int64_t size) { return p->summarize && size > 2 * (int64_t)p->o->edgeitems; }

/* How many items stand for a dimension: a folded one shows its edges and an ellipsis between them. */
static int64_t item_count(const printer *p, int64_t size)
{
    return is_folded(p, size) ? 2 * (int64_t)p->o->edgeitems + 1 : size;
}

static const int64_t ELLIPSIS = -1;

static int64_t item_index(const printer *p, int64_t size, int64_t item)
{
    if (!is_folded(p, size) || item < p->o->edgeitems)
        return item;
    return item == p->o->edgeitems ? ELLIPSIS : size - (item_count(p, size) - item);
}

static const char *element(const printer *p, const char *data, int dim, int64_t index)
{
    return data + index * p->v->strides[dim] * (int64_t)dtype_size(p->v->dtype);
}

typedef void visitor(printer *p, const char *data);

static void visit(printer *p, const char *data, int dim, visitor *f)
{
    if (dim == p->v->ndim) {
        f(p, data);
        return;
    }
    int64_t size = p->v->sizes[dim];
    for (int64_t i = 0; i < item_count(p, size); i++) {
        int64_t index = item_index(p, size, i);
        if (index != ELLIPSIS)
            visit(p, element(p, data, dim, index), dim + 1, f);
    }
}

/* --- one number, and the style of all ---------------------------------------------------------------------- */

static void render_float(printer *p, double x)
{
    if (isnan(x)) /* whatever its sign */
        text_add(&p->number, "nan");
    else if (p->scientific)
        text_print(&p->number, "%.*e", p->o->precision, x);
    else if (p->whole)
        text_print(&p->number, isinf(x) ? "%.0f" : "%.0f.", x);
    else
        text_print(&p->number, "%.*f", p->o->precision, x);
}

static void render(printer *p, const char *data)
{
    p->number.length = 0;
    if (p->is_float)
        render_float(p, dtype_load_double(p->v->dtype, data));
    else if (p->is_bool)
        text_add(&p->number, dtype_load_int(p->v->dtype, data) ? "True" : "False");
    else
        text_print(&p->number, "%lld", (long long)dtype_load_int(p->v->dtype, data));
}

/* Zeros, infinities and NaNs have no say in the style: they are padded to the width of the others, or exceed it. */
static bool decides(const printer *p, const char *data)
{
    if (!p->is_float)
        return true;
    double x = dtype_load_double(p->v->dtype, data);
    return isfinite(x) && x != 0;
}

static void note_range(printer *p, const char *data)
{
    if (!decides(p, data))
        return;
    double x = fabs(dtype_load_double(p->v->dtype, data));
    p->smallest = fmin(p->smallest, x);
    p->largest = fmax(p->largest, x);
    p->whole &= x == ceil(x);
}

static void note_width(printer *p, const char *data)
{
    if (!decides(p, data))
        return;
    render(p, data);
    if ((int64_t)p->number.length > p->width)
        p->width = (int64_t)p->number.length;
}

static bool is_scientific(const printer *p)
{
    if (p->largest == 0) /* no number decides */
        return false;
    if (p->o->sci_mode >= 0)
        return p->o->sci_mode;
    return p->largest / p->smallest > 1000 || p->largest > 1e8 || p->smallest < 1e-4;
}

static void choose_style(printer *p)
{
    p->width = 1;
    p->whole = true;
    p->smallest = INFINITY;
    if (p->is_float) {
        visit(p, p->v->data, 0, note_range);
        p->scientific = is_scientific(p);
    }
    visit(p, p->v->data, 0, note_width);
}

/* --- the body ---------------------------------------------------------------------------------------------- */

static void print_number(printer *p, const char *data)
{
    render(p, data);
    text_repeat(&p->out, ' ', p->width - (int64_t)p->number.length);
    if (p->number.bytes)
        text_append(&p->out, p->number.bytes, p->number.length);
}

static void new_line(printer *p, int lines, int64_t indent)
{
    text_add(&p->out, ",");
    text_repeat(&p->out, '\n', lines);
    text_repeat(&p->out, ' ', indent);
}

static void print_vector(printer *p, const char *data, int64_t indent)
{
    int dim = p->v->ndim - 1;
    int64_t size = p->v->sizes[dim], per_line = (p->o->linewidth - indent) / (p->width + 2); /* ", " between two */
    per_line = per_line > 1 ? per_line : 1;
    text_add(&p->out, "[");
    for (int64_t i = 0; i < item_count(p, size); i++) {
        if (i > 0 && i % per_line == 0)
            new_line(p, 1, indent + 1);
        else if (i > 0)
            text_add(&p->out, ", ");
        int64_t index = item_index(p, size, i);
        if (index == ELLIPSIS)
            text_add(&p->out, p->o->edgeitems ? " ..." : "...");
        else
            print_number(p, element(p, data, dim, index));
    }
    text_add(&p->out, "]");
}

static void print_slices(printer *p, const char *data, int dim, int64_t indent)
{
    int dims = p->v->ndim - dim;
    if (dims == 0)
        print_number(p, data);
    if (dims == 1)
        print_vector(p, data, indent);
    if (dims < 2)
        return;
    int64_t size = p->v->sizes[dim];
    text_add(&p->out, "[");
    for (int64_t i = 0; i < item_count(p, size); i++) {
        if (i > 0)
            new_line(p, dims - 1, indent + 1);
        int64_t index = item_index(p, size, i);
        if (index == ELLIPSIS)
            text_add(&p->out, "...");
        else
            print_slices(p, element(p, data, dim, index), dim + 1, indent + 1);
    }
    text_add(&p->out, "]");
}

static void print_body(printer *p, int64_t indent)
{
    if (view_numel(p->v) == 0) {
        text_add(&p->out, "[]");
        return;
    }
    choose_style(p);
    print_slices(p, p->v->data, 0, indent);
}

/* --- what follows the body --------------------------------------------------------------------------------- */

/* A shape as Python prints a tuple: (2, 3), (2,), (). */
static void render_size(printer *p)
{
    p->number.length = 0;
    text_add(&p->number, "size=(");
    for (int d = 0; d < p->v->ndim; d++)
        text_print(&p->number, d ? ", %lld" : "%lld", (long long)p->v->sizes[d]);
    text_add(&p->number, p->v->ndim == 1 ? ",)" : ")");
}

static void render_dtype(printer *p)
{
    p->number.length = 0;
    text_print(&p->number, "dtype=torch.%s", dtypes[p->v->dtype].name);
}

static bool shows_size(const printer *p) { return view_numel(p->v) == 0 ? p->v->ndim != 1 : p->o->edgeitems == 0; }

/* An empty tensor has no element to tell an integer or a boolean by. */
static bool shows_dtype(const printer *p, bk_dtype default_float)
{
    bk_dtype d = p->v->dtype;
    if (d == default_float)
        return false;
    return view_numel(p->v) == 0 || (d != BK_INT64 && d != BK_BOOL);
}

/* The length that PyTorch counts for the line so far: two more than it has when it is the first, one when not. */
static int64_t last_line_length(const text *t)
{
    if (!t->bytes)
        return 0;
    const char *line = strrchr(t->bytes, '\n');
    return line ? (int64_t)t->length - (line - t->bytes) + 1 : (int64_t)t->length + 2;
}

static void print_item(printer *p, const char *item, int64_t *line, int64_t indent)
{
    int64_t length = item ? (int64_t)strlen(item) : 0;
    if (!item)
        return;
    if (*line + length + 2 > p->o->linewidth) {
        new_line(p, 1, indent);
        *line = indent + length;
    } else {
        text_add(&p->out, ", ");
        *line += length + 2;
    }
    text_add(&p->out, item);
}

static void print_items(printer *p, int64_t indent, bk_dtype default_float, const char *extra)
{
    int64_t line = last_line_length(&p->out);
    if (shows_size(p)) {
        render_size(p);
        print_item(p, p->number.bytes, &line, indent);
    }
    if (shows_dtype(p, default_float)) {
        render_dtype(p);
        print_item(p, p->number.bytes, &line, indent);
    }
    print_item(p, extra, &line, indent);
}

static char *print_all(const view *v, const format_options *o, const char *prefix, bk_dtype default_float,
                       const char *extra)
{
    printer p = { .v = v,
                  .o = o,
                  .summarize = view_numel(v) > o->threshold,
                  .is_float = dtype_is_float(v->dtype),
                  .is_bool = v->dtype == BK_BOOL,
                  .out = text_new(),
                  .number = text_new() };
    int64_t indent = (int64_t)strlen(prefix);
    text_add(&p.out, prefix);
    print_body(&p, indent);
    print_items(&p, indent, default_float, extra);
    text_add(&p.out, ")");
    bool complete = p.out.bytes && p.number.bytes;
    mem_free(p.number.bytes);
    if (complete)
        return p.out.bytes;
    mem_free(p.out.bytes);
    return NULL;
}

/* printf writes the decimal point of the locale; the printed form has a point in every country. */
char *format_tensor(const view *v, const format_options *o, const char *prefix, bk_dtype default_float,
                    const char *extra)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return error_memory();
    locale_t callers = uselocale(plain);
    char *printed = print_all(v, o, prefix, default_float, extra);
    uselocale(callers);
    freelocale(plain);
    return printed;
}
