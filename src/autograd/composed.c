/* composed.c: what the tape shows of functions that are made of several records. */
#include "autograd/composed.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "autograd/function.h"
#include "core/handle.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/trail.h"

const composed composed_rows[] = {
#define X(function, name, arguments) { #function, name, arguments },
#include "autograd/composed.def"
#undef X
};
static const char FLAGS[] = "^+:=>"; /* what may follow the numbers of a row's arguments */
const int composed_count = sizeof composed_rows / sizeof *composed_rows;

int composed_find(const char *function)
{
    for (int i = 0; i < composed_count; i++)
        if (strcmp(composed_rows[i].function, function) == 0)
            return i;
    return -1;
}

/* An op that was done in place of a part is inside of the write to the base; NULL where this is no such write. */
static node *inside_write(const node *base, uint64_t start)
{
    bool written = base && base->sequence >= start && (base->op == OP_update || place_is_copy(base)) &&
                   strcmp(place_grad_name(base), "CopySlices") == 0;
    return written ? base->edge[1] : NULL;
}

static void mark(node *place, int number, uint64_t start, uint8_t reached)
{
    if (place && place->op != OP_leaf && place->op != OP_output && place->op != OP_function &&
        place->sequence >= start) { /* a function in another one: the outer one's name stays */
        place->composed = (uint16_t)(number + 1);
        place->reached = reached;
        place->span = (uint32_t)(place->sequence - start);
    }
}

static bool is_in_place(const composed *row) { return row->function[strlen(row->function) - 1] == '_'; }

/* Of a function in place that wrote to the base itself: the row of what PyTorch calls that; -1: of another one. */
static int row_of_part(const composed *row)
{
    static const char *const names[] = { "_fill_part", "_put_to_part" };
    static int rows[2];
    size_t count = strcspn(row->arguments, FLAGS);
    if (!is_in_place(row) || count < 1 || count > 2)
        return -1;
    if (!rows[count - 1])
        rows[count - 1] = composed_find(names[count - 1]) + 1;
    return rows[count - 1] - 1;
}

/* A part that was written to in place is a view of its base after the write, as in PyTorch. */
void composed_mark(bk_tensor *t, int number, uint64_t start, uint8_t reached)
{
    lock_take();
    node *place = tensor_tracked(t) ? tensor_edge(t) : NULL;
    bool view = place && place->op == OP_view && !place_is_copy(place);
    node *base = view ? place->edge[0] : NULL, *inside = inside_write(base, start);
    int of_part = base && !inside && base->sequence >= start ? row_of_part(&composed_rows[number]) : -1;
    if (of_part >= 0)
        mark(base, of_part, start, reached);
    else
        mark(inside ? inside : place, number, start, reached);
    if (inside && inside->composed == number + 1 && is_in_place(&composed_rows[number]) && base->op == OP_update)
        base->attr.region.tape = (base->attr.region.tape & REGION_FRESH) | WRITE_through << REGION_OP_SHIFT;
    lock_give();
}

void composed_mark_base(bk_tensor *part, int number, uint64_t start, uint8_t reached)
{
    lock_take();
    node *base = tensor_tracked(part) ? part->track->place : NULL, *inside = inside_write(base, start);
    mark(inside ? inside : base, number, start, reached);
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

bool composed_shows_views(const node *place) { return strchr(row_of(place)->arguments, '^'); }

bool composed_shows(const node *n)
{
    return (n->op == OP_view && !n->attr.region.add) || (n->op == OP_cast && n->attr.i[0] != n->dtype);
}

/* What is left to look at: a place, and the one that led there. */
static bool push_edge(trail *work, const node *from, node *to)
{
    return trail_push(work, (node *)from) && trail_push(work, to);
}

/* The places outside of the function that its records lead to, in the order in which they are met: once each, or
 * (`all`) as often as they are. by: where each was met from; or NULL. */
static bool find_outside(const node *place, bool all, trail *found, trail *by)
{
    trail work = { 0 }, seen = { 0 };
    uint64_t start = place->sequence - place->span;
    bool views = composed_shows_views(place), good = push_edge(&work, NULL, (node *)place);
    while (good && work.count) {
        node *n = work.v[--work.count], *from = work.v[--work.count];
        bool inside = n->op != OP_leaf && n->sequence >= start && !(views && n != place && composed_shows(n));
        if (n->flags & NODE_MARK)
            continue;
        if (!inside && !(good = trail_push(found, n) && (!by || trail_push(by, from))))
            break;
        if (inside || !all)
            good = trail_meet(&seen, n);
        int count = n->op == OP_function ? function_inputs(n) : MAX_INPUTS;
        node *const *edges = n->op == OP_function ? function_edges(n) : n->edge;
        for (int k = inside ? count - 1 : -1; good && k >= 0; k--)
            good = !edges[k] || push_edge(&work, n, edges[k]);
    }
    trail_unmark(&seen);
    trail_free(&work);
    trail_free(&seen);
    return good;
}

bool composed_crossings(const node *place, trail *out)
{
    trail found = { 0 }, by = { 0 };
    lock_take();
    bool good = find_outside(place, true, &found, &by);
    lock_give();
    for (int i = 0; good && i < found.count; i++)
        good = push_edge(out, by.v[i], found.v[i]);
    trail_free(&found);
    trail_free(&by);
    return good;
}

/* What was found belongs to the arguments that gradients go to, one after the other as the row says; one place may be
 * that of several. */
static int arrange(const composed *row, uint8_t reached, const trail *found, node ***out, int ranks[static 8])
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
            if (row->arguments[i] == *argument || row->arguments[i] - 'a' == *argument - '0') {
                ranks[n] = i;
                (*out)[n++] = of[i];
            }
    return n;
}

int composed_edges(const node *place, node ***out)
{
    int ranks[8];
    return composed_edges_ranked(place, out, ranks);
}

int composed_edges_ranked(const node *place, node ***out, int ranks[static 8])
{
    const composed *row = row_of(place);
    bool list = row->arguments[0] == '*', all = list || strchr(row->arguments, '+');
    trail found = { 0 };
    lock_take();
    bool good = find_outside(place, all, &found, NULL);
    lock_give();
    if (good && list) {
        memset(ranks, 0, 8 * sizeof *ranks);
        *out = found.v;
        return found.count;
    }
    int count = good ? arrange(row, place->reached, &found, out, ranks) : -1;
    trail_free(&found);
    return count;
}

/* --- steps: what follows > in a row ----------------------------------------------------------------------------------
 *
 * A list is of numbers of arguments (as PyTorch has them), names and - (nowhere), with commas between. A name leads to
 * the list in brackets behind it, or to all arguments where it has none. */

static const char *steps_of(const node *place)
{
    const char *mark = strchr(row_of(place)->arguments, '>');
    return mark ? mark + 1 : NULL;
}

static bool is_name(const char *at) { return isupper((unsigned char)*at); }

/* The end of a name, or of one other character. */
static const char *after(const char *at)
{
    if (!is_name(at))
        return at + 1;
    while (isalnum((unsigned char)*at))
        at++;
    return at;
}

/* The name of step `number`. */
static const char *step_at(const node *place, int number)
{
    const char *at = steps_of(place);
    for (; *at; at = after(at))
        if (is_name(at) && --number == 0)
            return at;
    return at;
}

static int step_number(const node *place, const char *name)
{
    int number = 1;
    for (const char *at = steps_of(place); at < name; at = after(at))
        number += is_name(at);
    return number;
}

/* The end of the item that begins here. */
static const char *item_end(const char *at)
{
    for (int depth = 0; *at && (depth || (*at != ',' && *at != ')')); at = after(at))
        depth += (*at == '(') - (*at == ')');
    return at;
}

typedef struct arguments {
    node **edges;
    int count;
} arguments;

static node *edge_at(const arguments *a, const char *digit)
{
    int k = *digit - '0';
    return isdigit((unsigned char)*digit) && k < a->count ? a->edges[k] : NULL;
}

/* Whether an item leads to any place: PyTorch has no function where nothing requires gradients. */
static bool item_reaches(const arguments *a, const char *at, const char *end)
{
    bool any = false, found = false;
    for (int k = 0; k < a->count; k++)
        any |= a->edges[k] != NULL;
    for (; at < end; at = after(at))
        found |= is_name(at) ? *after(at) != '(' && any : edge_at(a, at) != NULL;
    return found;
}

/* The first argument of an item that is none of `named`, which it is added to then. */
static int argument_of(const char *at, const char *end, int count, unsigned *named)
{
    for (; at < end; at = after(at)) {
        int k = *at - '0';
        bool leads = isdigit((unsigned char)*at) || (is_name(at) && *after(at) != '(');
        for (k = is_name(at) ? 0 : k; leads && k < count; k++) {
            if (!(*named >> k & 1)) {
                *named |= 1U << k;
                return k;
            }
            if (!is_name(at))
                break;
        }
    }
    return -1;
}

static int ways_of_list(const node *place, const char *list, const arguments *a, composed_way *out)
{
    int n = 0;
    unsigned named = 0;
    for (const char *at = list, *end; *at && *at != ')'; at = *end == ',' ? end + 1 : end) {
        end = item_end(at);
        bool step = is_name(at) && item_reaches(a, at, end);
        out[n++] =
            (composed_way){ step ? step_number(place, at) : 0, edge_at(a, at), argument_of(at, end, a->count, &named) };
    }
    return n;
}

/* The list that a step leads to; NULL: all arguments. */
static const char *list_of(const node *place, int step)
{
    const char *list = steps_of(place);
    if (!list || !step)
        return list;
    const char *end = after(step_at(place, step));
    return *end == '(' ? end + 1 : NULL;
}

/* Whether the function of a step moves elements, and computes nothing. */
static bool only_moves(const node *place, int step)
{
    static const char *const names[] = { "View",      "UnsafeView", "Squeeze", "Unsqueeze", "T",
                                         "Transpose", "Permute",    "Expand",  "Repeat",    "Clone" };
    const char *at = step ? step_at(place, step) : composed_name(place);
    for (size_t i = 0; at && i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(at, names[i], length) == 0 && strncmp(at + length, "Backward", strlen("Backward")) == 0)
            return true;
    }
    return false;
}

/* Whether all of an item is on the way to one argument. */
static bool leads_to_one(const char *at, const char *end, int count)
{
    unsigned named = 0;
    argument_of(at, end, count, &named);
    return argument_of(at, end, count, &named) < 0;
}

int composed_work(const node *place, int step)
{
    int count = (int)strcspn(row_of(place)->arguments, FLAGS);
    for (int at = 0;; at++) { /* a step that leads to one other leads to the next */
        const char *list = list_of(place, at), *end = list ? item_end(list) : NULL;
        bool passes = list && is_name(list) && (!*end || *end == ')');
        if (!passes || (!only_moves(place, at) && leads_to_one(list, end, count)))
            return step < at ? -1 : step > at;
    }
}

bool composed_turns(const node *place, int step)
{
    const char *at = step_at(place, step);
    return strncmp(at, "TBackward0", (size_t)(after(at) - at)) == 0;
}

int composed_ways(const node *place, int step, composed_way **out)
{
    arguments a = { 0 };
    a.count = composed_edges(place, &a.edges);
    const char *list = list_of(place, step);
    size_t room = list ? strlen(list) : (size_t)(a.count > 0 ? a.count : 1);
    *out = a.count < 0 ? NULL : mem_alloc_zero(room * sizeof **out);
    int count = *out ? a.count : -1;
    for (int k = 0; !list && k < count; k++)
        (*out)[k] = (composed_way){ 0, a.edges[k], k };
    if (list && count >= 0)
        count = ways_of_list(place, list, &a, *out);
    mem_free(a.edges);
    return count;
}

void composed_step_name(const node *place, int step, char name[static 64])
{
    const char *at = step_at(place, step);
    snprintf(name, 64, "%.*s", (int)(after(at) - at), at);
}
