/* slopeless.c: putting results on the tape that no gradient goes through. */
#include "autograd/slopeless.h"

#include <string.h>

#include "autograd/function.h"
#include "autograd/rules.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/scope.h"

enum { MOST_ARGUMENTS = 4 };

/* What PyTorch calls a function's gradient, and the function in its error. One that is called aten:: there has no row
 * in its table of gradients, and leads to nothing but the arguments that require gradients. */
static const struct {
    const char *function, *name, *said;
} rows[] = {
    { "set_", "NotImplemented", "set_" },
    { "heaviside_", "NotImplemented", "aten::heaviside_" },
    { "bernoulli", "NotImplemented", "aten::bernoulli" },
    { "binomial", "NotImplemented", "aten::binomial" },
    { "detach_copy", "NotImplemented", "aten::detach_copy" },
    { "histogram", "NotImplemented", "aten::histogram" },
    { "native_channel_shuffle", "NotImplemented", "aten::native_channel_shuffle" },
    { "unique", "Unique2Backward0", "_unique2" },
    { "unique_dim", "UniqueDimBackward0", "unique_dim" },
    { "unique_consecutive", "UniqueConsecutiveBackward0", "unique_consecutive" },
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static int row_of(const char *function)
{
    int row = 0;
    while (row < ROW_COUNT && strcmp(rows[row].function, function) != 0)
        row++;
    return row;
}

static int refuse(void *data, bk_tensor *const *grads, int count, bk_tensor **out, int inputs)
{
    (void)grads, (void)count, (void)out, (void)inputs;
    rule_refused(data);
    return -1;
}

static int miss(void *data, bk_tensor *const *grads, int count, bk_tensor **out, int inputs)
{
    (void)grads, (void)count, (void)out, (void)inputs;
    rule_missing(data);
    return -1;
}

/* Those on the tape. */
static int tracked(bk_tensor *const *arguments, int count, bk_tensor *out[static MOST_ARGUMENTS])
{
    int n = 0;
    for (int i = 0; i < count && i < MOST_ARGUMENTS; i++)
        if (arguments[i] && tensor_tracked(arguments[i]))
            out[n++] = arguments[i];
    return n;
}

int slopeless_record(const char *function, bk_tensor *const *arguments, int count, bk_tensor **results,
                     const bool *same, int result_count)
{
    const int row = row_of(function);
    bk_tensor *on_tape[MOST_ARGUMENTS];
    const int n = grad_enabled() ? tracked(arguments, count, on_tape) : 0;
    if (!n || row == ROW_COUNT)
        return n ? error_int(BK_RUNTIME_ERROR, "%s has no row in slopeless.c", function) : 0;
    const bool unnamed = strcmp(rows[row].name, "NotImplemented") == 0, bare = strchr(rows[row].said, ':');
    const bk_function fn = { .name = rows[row].name,
                             .backward = unnamed ? refuse : miss,
                             .data = (void *)rows[row].said };
    return function_record(&fn, NULL, bare ? on_tape : arguments, bare ? n : count, results, same, result_count, NULL);
}

bk_tensor *slopeless_as(bk_tensor *t, const char *function, const bk_tensor *const *arguments, int count)
{
    if (t && slopeless_record(function, (bk_tensor *const *)arguments, count, &t, NULL, 1) < 0) {
        scope_drop(t);
        return NULL;
    }
    return t;
}

/* --- zeros -----------------------------------------------------------------------------------------------------------
 */

/* What the gradients of the arguments look like. */
typedef struct forms {
    struct {
        int ndim;
        int64_t sizes[BK_MAX_NDIM];
        bk_dtype dtype;
    } of[MOST_ARGUMENTS];
} forms;

static int give_zeros(void *data, bk_tensor *const *grads, int count, bk_tensor **out, int inputs)
{
    const forms *f = data;
    (void)grads, (void)count;
    for (int i = 0; i < inputs; i++) {
        out[i] = bk_zeros(f->of[i].ndim, f->of[i].sizes, f->of[i].dtype);
        if (!out[i])
            return -1;
    }
    return 0;
}

int slopeless_written(const char *function, const char *name, bk_tensor *const *arguments, int count)
{
    bk_tensor *self = arguments[0];
    if (row_of(function) < ROW_COUNT)
        return slopeless_record(function, arguments, count, &self, (bool[]){ true }, 1);
    forms *f = mem_alloc_zero(sizeof *f);
    if (!f)
        return -1;
    for (int i = 0; i < count; i++) {
        const layout *l = arguments[i]->layout;
        f->of[i].ndim = l->ndim;
        f->of[i].dtype = tensor_dtype(arguments[i]);
        memcpy(f->of[i].sizes, l->sizes, (size_t)l->ndim * sizeof *l->sizes);
    }
    const bk_function fn = { .name = name, .backward = give_zeros, .free = mem_free, .data = f };
    return function_record(&fn, NULL, arguments, count, &self, (bool[]){ true }, 1, NULL);
}
