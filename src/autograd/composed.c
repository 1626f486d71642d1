/* composed.c: what the tape shows of functions that are made of several records. */
#include "autograd/composed.h"

#include <stdio.h>
#include <string.h>

#include "autograd/function.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/trail.h"

const composed composed_rows[] = {
#define X(function, name, arguments) { #function, name, arguments },
#include "autograd/composed.def"
#undef X
};
static const char FLAGS[] = "^+:=>|"; /* what may follow the numbers of a row's arguments */
const int composed_count = sizeof composed_rows / sizeof *composed_rows;

int composed_find(const char *function)
{
    for (int i = 0; i < composed_count; i++)
        if (strcmp(composed_rows[i].function, function) == 0)
            return i;
    return -1;
}

void composed_mark(bk_tensor *t, int number, uint64_t start, uint8_t reached)
{
    lock_take();
    node *place = tensor_tracked(t) ? tensor_edge(t) : NULL;
    if (place && place->op != OP_leaf && place->op != OP_output && place->op != OP_function &&
        place->sequence >= start) { /* a function in another one: the outer one's name stays */
        place->composed = (uint16_t)(number + 1);
        place->reached = reached;
        place->span = (uint32_t)(place->sequence - start);
    }
    lock_give();
}

bk_tensor *composed_as(bk_tensor *t, const char *function, int *row, uint64_t start, const bk_tensor *const *arguments,
                       int count)
{
    uint8_t reached = 0;
    if (!t || !grad_enabled() || !tensor_tracked(t))
        return t;
    for (int i = 0; i < count; i++)
        reached |= (uint8_t)(tensor_tracked(arguments[i]) << i);
    *row = *row ? *row : composed_find(function) + 1; /* the same for all threads */
    composed_mark(t, *row - 1, start, reached);
    return t;
}

static const composed *row_of(const node *place)
{
    return place->composed ? &composed_rows[place->composed - 1] : NULL;
}

const char *composed_name(const node *place)
{
    const composed *row = row_of(place);
    return row && *row->name ? row->name : NULL;
}

/* What begins with `mark` among the flags of a row; NULL: nothing does. */
static const char *flag_of(const node *place, char mark, int argument)
{
    const composed *row = row_of(place);
    const char *at = row ? strchr(row->arguments, mark) : NULL;
    while (at && mark == '|' && at[1] != '0' + argument)
        at = strchr(at + 1, mark);
    return at;
}

int composed_inner(const node *place) { return flag_of(place, '>', 0) ? COMPOSED_ALL : 0; }

int composed_around(const node *place, int argument)
{
    return flag_of(place, '|', argument) ? COMPOSED_OF_ARGUMENT + argument : 0;
}

void composed_step_name(const node *place, int step, char name[static 64])
{
    const char *at =
        step == COMPOSED_ALL ? flag_of(place, '>', 0) + 1 : flag_of(place, '|', step - COMPOSED_OF_ARGUMENT) + 2;
    snprintf(name, 64, "%.*s", (int)strcspn(at, "|>"), at);
}

/* Views and casts that the function made of its arguments, and that PyTorch shows. */
static bool is_shown(const node *n)
{
    return (n->op == OP_view && !n->attr.region.add) || (n->op == OP_cast && n->attr.i[0] != n->dtype);
}

/* The places outside of the function that its records lead to, in the order in which they are met: once each, or
 * (`all`) as often as they are. views: those of arguments count as outside. */
static bool find_outside(const node *place, bool all, bool views, trail *found)
{
    trail work = { 0 }, seen = { 0 };
    uint64_t start = place->sequence - place->span;
    bool good = trail_push(&work, (node *)place);
    while (good && work.count) {
        node *n = work.v[--work.count];
        bool inside = n->op != OP_leaf && n->sequence >= start && !(views && n != place && is_shown(n));
        if (n->flags & NODE_MARK)
            continue;
        if (!inside && !(good = trail_push(found, n)))
            break;
        if (inside || !all)
            good = trail_meet(&seen, n);
        int count = n->op == OP_function ? function_inputs(n) : MAX_INPUTS;
        node *const *edges = n->op == OP_function ? function_edges(n) : n->edge;
        for (int k = inside ? count - 1 : -1; good && k >= 0; k--)
            good = !edges[k] || trail_push(&work, edges[k]);
    }
    trail_unmark(&seen);
    trail_free(&work);
    trail_free(&seen);
    return good;
}

/* What was found belongs to the arguments that gradients go to, one after the other as the row says; one place may be
 * that of several. */
static int arrange(const composed *row, uint8_t reached, const trail *found, node ***out)
{
    int count = (int)strcspn(row->arguments, FLAGS), last = 0;
    node *of[8] = { 0 };
    for (int i = 0; i < count && found->count; i++) {
        if (!(reached >> i & 1))
            continue;
        of[i] = found->v[last < found->count ? last : found->count - 1];
        last++;
    }
    *out = mem_alloc_zero(8 * sizeof **out);
    if (!*out)
        return -1;
    const char *order = strchr(row->arguments, '=');
    int n = 0;
    for (const char *argument = order ? order + 1 : "0123456789"; *argument >= '0' && *argument <= '9'; argument++)
        for (int i = 0; i < count; i++)
            if (row->arguments[i] == *argument || row->arguments[i] - 'a' == *argument - '0')
                (*out)[n++] = of[i];
    return n;
}

int composed_edges(const node *place, node ***out)
{
    const composed *row = row_of(place);
    bool list = row->arguments[0] == '*', all = list || strchr(row->arguments, '+');
    trail found = { 0 };
    lock_take();
    bool good = find_outside(place, all, strchr(row->arguments, '^'), &found);
    lock_give();
    if (good && list) {
        *out = found.v;
        return found.count;
    }
    int count = good ? arrange(row, place->reached, &found, out) : -1;
    trail_free(&found);
    return count;
}
