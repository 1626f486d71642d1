/* composed.c: what the tape shows of functions that are made of several records. */
#include "autograd/composed.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/function.h"
#include "autograd/layer_steps.h"
#include "autograd/parts.h"
#include "autograd/product_steps.h"
#include "autograd/view_steps.h"
#include "core/handle.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/trail.h"

const composed composed_rows[] = {
#define X(function, name, arguments) { #function, name, arguments },
#include "autograd/composed.def"
#undef X
};
static const char FLAGS[] = "~^+!%?|$:=#>"; /* what may follow the numbers of a row's arguments */
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
    return written ? base->edge[place_is_copy(base) ? 0 : 1] : NULL;
}

static bool has_flag(const composed *row, char flag)
{
    const char *flags = row->arguments + strcspn(row->arguments, FLAGS);
    const char *found = strchr(flags, flag);
    return found && found < flags + strcspn(flags, ":=#>");
}

/* Whether it has a name already that stays. */
static bool is_named(const node *place, uint64_t start)
{
    return place->composed && place->sequence - place->span >= start &&
           has_flag(&composed_rows[place->composed - 1], '!');
}

static void mark(node *place, int number, uint64_t start, uint8_t reached)
{
    if (place && place->op != OP_leaf && place->op != OP_output && place->op != OP_function &&
        place->sequence >= start && !is_named(place, start)) { /* of a function in another one the outer one is shown */
        place->composed = (uint16_t)(number + 1);
        place->reached = reached;
        place->span = (uint32_t)(place->sequence - start);
        if (parts_known)
            parts_forget(place); /* by the call that it had */
        place->call = start & CALL_MASK;
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
static void mark_view(node *place, int number, uint64_t start, uint8_t reached)
{
    node *base = place->edge[0], *inside = inside_write(base, start);
    if (inside && inside->op == OP_function) /* which has a name of its own */
        inside = NULL;
    int of_part = !inside && base->sequence >= start ? row_of_part(&composed_rows[number]) : -1;
    if (of_part >= 0)
        mark(base, of_part, start, reached);
    else
        mark(inside ? inside : place, number, start, reached);
    if (inside && inside->composed == number + 1 && is_in_place(&composed_rows[number]) && base->op == OP_update)
        base->attr.region.tape = (base->attr.region.tape & REGION_FRESH) | WRITE_through << REGION_OP_SHIFT;
}

void composed_mark(bk_tensor *t, int number, uint64_t start, uint8_t reached)
{
    lock_take();
    node *place = tensor_tracked(t) ? tensor_edge(t) : NULL;
    if (place && place->op == OP_view && !place_is_copy(place))
        mark_view(place, number, start, reached);
    else
        mark(place, number, start, reached);
    lock_give();
}

void composed_mark_several(bk_tensor *t, int number, uint64_t start, uint8_t reached, int output)
{
    composed_mark(t, number, start, (uint8_t)(reached | output << COMPOSED_OUTPUT_SHIFT));
    lock_take();
    node *place = tensor_tracked(t) ? tensor_edge(t) : NULL;
    if (place && place->composed == number + 1 && composed_results(place) > 1)
        parts_know(place);
    lock_give();
}

void composed_mark_base(bk_tensor *part, int number, uint64_t start, uint8_t reached)
{
    lock_take();
    node *base = tensor_tracked(part) ? part->track->place : NULL, *inside = inside_write(base, start);
    mark(inside ? inside : base, number, start, reached);
    lock_give();
}

void composed_mark_below(bk_tensor *t, int number, uint64_t start, uint8_t reached)
{
    lock_take();
    node *place = tensor_tracked(t) ? tensor_edge(t) : NULL;
    mark(place ? place->edge[0] : NULL, number, start, reached);
    lock_give();
}

bk_tensor *composed_as(bk_tensor *t, const char *function, int *row, uint64_t start, const bk_tensor *const *arguments,
                       int count)
{
    uint8_t reached = 0;
    if (!t || !grad_enabled() || !tensor_tracked(t))
        return t;
    for (int i = 0; i < count; i++)
        reached |= (uint8_t)((arguments[i] && tensor_tracked(arguments[i])) << i);
    *row = *row ? *row : composed_find(function) + 1; /* the same for all threads */
    composed_mark(t, *row - 1, start, reached);
    return t;
}

/* --- rows that are made for a call ----------------------------------------------------------------------------------
 *
 * The place has the number of its row (node.call) and that of _form. A program has few; they stay. */

enum { MOST_FORMS = 1024 };
static composed *forms;
static int form_count;

static int form_row(void)
{
    static int row;
    row = row ? row : composed_find("_form") + 1;
    return row;
}

int composed_form(const char *functions, const char *order)
{
    const char *bracket = strchr(functions, '(');
    size_t name = bracket ? (size_t)(bracket - functions) : 0, inner = bracket ? strlen(bracket) - 2 : 0;
    char *text = bracket ? mem_try(name + inner + strlen(order) + 4) : NULL;
    forms = forms ? forms : mem_try(MOST_FORMS * sizeof *forms);
    if (!text || !forms) {
        mem_free(text);
        return -1;
    }
    char *arguments = text + name + 1;
    sprintf(text, "%.*s", (int)name, functions);
    sprintf(arguments, "%s+>%.*s", order, (int)inner, bracket + 1);
    for (int i = 0; i < form_count; i++)
        if (strcmp(forms[i].name, text) == 0 && strcmp(forms[i].arguments, arguments) == 0) {
            mem_free(text);
            return i;
        }
    if (form_count == MOST_FORMS) {
        mem_free(text);
        return -1;
    }
    forms[form_count] = (composed){ "_form", text, arguments };
    return form_count++;
}

bk_tensor *composed_as_form(bk_tensor *t, int form, uint64_t start, const bk_tensor *const *arguments,
                            const char *order)
{
    uint8_t reached = 0;
    if (!grad_enabled() || !tensor_tracked(t))
        return t;
    for (int i = 0; order[i]; i++)
        reached |= (uint8_t)(tensor_tracked(arguments[order[i] - '0']) << i);
    lock_take();
    composed_mark(t, form_row() - 1, start, reached);
    node *place = tensor_edge(t);
    if (place && place->composed == form_row() && place->sequence >= start)
        place->call = (uint32_t)form & CALL_MASK;
    lock_give();
    return t;
}

static bool is_of_halves(const composed *row) { return row->arguments[strcspn(row->arguments, FLAGS)] == '~'; }

static const composed *row_of(const node *place)
{
    if (!place->composed)
        return NULL;
    if (place->composed == form_row() && place->call < (uint32_t)form_count)
        return &forms[place->call];
    bool half = place->dtype == BK_FLOAT16 || place->dtype == BK_BFLOAT16;
    half = half && place->composed < composed_count && is_of_halves(&composed_rows[place->composed]);
    return &composed_rows[place->composed - 1 + half];
}

/* What follows > in a row. */
static const char *steps_in(const composed *row)
{
    const char *mark = strchr(row->arguments, '>');
    return mark ? mark + 1 : NULL;
}

/* The word of a row whose steps are found when somebody looks; NULL: they stand in the row. */
static const char *word_of(const composed *row)
{
    const char *steps = steps_in(row);
    return steps && islower((unsigned char)*steps) ? steps : NULL;
}

const char *composed_name(const node *place)
{
    const composed *row = row_of(place);
    if (row && *row->name)
        return row->name;
    const char *word = row ? word_of(row) : NULL;
    return !word ? NULL : layer_word(word) ? layer_name(word, place) : product_name(word, place);
}

uint64_t composed_start(const node *place)
{
    const composed *row = row_of(place);
    return row && !steps_in(row) && !strchr(row->arguments, '#') ? place->sequence - place->span : 0;
}

bool composed_passes(const node *place)
{
    const composed *row = row_of(place);
    return row && word_of(row) && layer_passes(word_of(row));
}

bool composed_joins(const node *place)
{
    const composed *row = row_of(place);
    return row && word_of(row) && layer_joins(word_of(row));
}

bool composed_is_view_name(const char *name)
{
    static const char *const names[] = { "ViewBackward0", "SqueezeBackward0", "SqueezeBackward1", "TransposeBackward0",
                                         "PermuteBackward0" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool composed_is_view(const node *place)
{
    if (place->composed == form_row())
        return composed_is_view_name(row_of(place)->name);
    static uint8_t known[sizeof composed_rows / sizeof *composed_rows]; /* 1: it is none, 2: it is one */
    uint8_t *row = &known[place->composed - 1];
    if (!*row)
        *row = 1 + composed_is_view_name(composed_rows[place->composed - 1].name);
    return *row == 2;
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
    bool views = composed_shows_views(place), list = row_of(place)->arguments[0] == '*';
    bool good = push_edge(&work, NULL, (node *)place);
    for (int k = 0; good && list && k < place->reached; k++)
        good = trail_push(found, NULL) && (!by || trail_push(by, NULL));
    while (good && work.count) {
        node *n = work.v[--work.count], *from = work.v[--work.count];
        if (!n) { /* of a list: one that no gradient goes to */
            good = trail_push(found, NULL) && (!by || trail_push(by, from));
            continue;
        }
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
            good = (!edges[k] && !(list && k == 1 && n->op == OP_update)) || push_edge(&work, n, edges[k]);
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
    if (word_of(row) && layer_word(word_of(row))) {
        memset(ranks, 0, 8 * sizeof *ranks);
        return layer_edges(word_of(row), (node *)place, out);
    }
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
 * A list is of numbers of arguments (as PyTorch has them), names, - (nowhere), & with the number of a name (which is
 * met once more) and @ with the numbers of the edges to a place inside, with commas between. & and a number behind an
 * argument or a place inside say which of its steps is meant, # and a number behind a name or that, which output. A
 * name leads to the list in brackets behind it, or to all arguments where it has none. */

static bool is_name(const char *at) { return isupper((unsigned char)*at); }

static const char *after_digits(const char *at)
{
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

static const char *after_name(const char *at)
{
    while (isalnum((unsigned char)*at))
        at++;
    return at;
}

/* Of a path or the number of an argument; at itself: it is none. */
static const char *after_place(const char *at)
{
    return *at == '@' ? after_digits(at + 1) : isdigit((unsigned char)*at) ? at + 1 : at;
}

/* The end of a name or of & and its number, both with the number of an output; of a place, which may have such an &
 * behind; or of another character. */
static const char *after(const char *at)
{
    const char *place = after_place(at);
    if (place > at)
        return *place == '&' ? after(place) : place;
    if (*at != '&' && !is_name(at))
        return at + 1;
    at = *at == '&' ? after_digits(at + 1) : after_name(at);
    return *at == '#' ? after_digits(at + 1) : at;
}

/* Of a name, or of &: which output it is. */
static int output_of(const char *at)
{
    const char *end = *at == '&' ? after_digits(at + 1) : after_name(at);
    return *end == '#' ? atoi(end + 1) : 0;
}

/* The name of step `number`. */
static const char *step_at(const char *steps, int number)
{
    const char *at = steps;
    for (; *at; at = after(at))
        if (is_name(at) && --number == 0)
            return at;
    return at;
}

static int step_number(const char *steps, const char *name)
{
    int number = 1;
    for (const char *at = steps; at < name; at = after(at))
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

const layout *place_layout(const node *place)
{
    return !place ? NULL : place->op == OP_leaf ? ((const track *)place->extra)->layout : place->layout;
}

static const layout *layout_at(const arguments *a, int k) { return place_layout(k < a->count ? a->edges[k] : NULL); }

/* "round21": of two dimensions, with one write of a part of the result to another after the one of the argument. */
static void round_steps(const char *word, char out[static STEPS_ROOM])
{
    int dims = word[5] - '0', writes = word[6] - '0', end = 0;
    for (int i = 0; i < writes; i++)
        end += snprintf(out + end, STEPS_ROOM - (size_t)end, "CopySlices(");
    end += snprintf(out + end, STEPS_ROOM - (size_t)end, "-");
    for (int i = 0; i < dims; i++)
        end += snprintf(out + end, STEPS_ROOM - (size_t)end, "%sSliceBackward0(", i ? "" : ",");
    end += snprintf(out + end, STEPS_ROOM - (size_t)end, "0%.*s", dims, ")))");
    for (int i = writes; i > 0; i--)
        end += snprintf(out + end, STEPS_ROOM - (size_t)end, "),SliceBackward0(&%d)", i);
}

/* NULL: the row has none. room: for those that are found now. */
static const char *steps_of(const node *place, const arguments *a, char room[static STEPS_ROOM])
{
    const char *word = word_of(row_of(place));
    if (!word)
        return steps_in(row_of(place));
    if (strncmp(word, "round", 5) == 0)
        return round_steps(word, room), room;
    if (layer_word(word))
        return layer_steps(word, (node *)place, a->edges, room) ? room : NULL;
    lock_take(); /* layouts are asked for */
    product_steps(word, place, (const layout *[]){ layout_at(a, 0), layout_at(a, 1), layout_at(a, 2) }, room);
    lock_give();
    return room;
}

static bool step_reaches(const node *place, int step);

/* The place inside that a path of edges leads to. */
static node *at_path(const node *place, const char *path)
{
    for (; isdigit((unsigned char)*path); path++)
        place = place->edge[*path - '0'];
    return (node *)place;
}

/* The place that a path or an argument is. */
static node *place_named(const node *place, const arguments *a, const char *at)
{
    return *at == '@' ? at_path(place, at + 1) : edge_at(a, at);
}

/* Whether it is on the tape, or else the step of it that is meant. */
static bool place_reaches(const node *place, const arguments *a, const char *at)
{
    const char *end = after_place(at);
    const node *to = end > at ? place_named(place, a, at) : NULL;
    return to && (*end != '&' || step_reaches(to, atoi(end + 1)));
}

/* Whether an item leads to any place: PyTorch has no function where nothing requires gradients. What is met once more
 * was named before: a text leads to its end. */
static bool item_reaches(const node *place, const char *steps, const arguments *a, const char *at)
{
    bool any = false, found = false;
    for (int k = 0; k < a->count; k++)
        any |= a->edges[k] != NULL;
    for (const char *end = item_end(at); at < end && !found; at = after(at)) {
        if (*at == '&')
            found = item_reaches(place, steps, a, step_at(steps, atoi(at + 1)));
        else
            found = is_name(at) ? *after(at) != '(' && any : place_reaches(place, a, at);
    }
    return found;
}

/* The same of a step of another place. It is asked of few: steps that are named by others lead to arguments. */
static bool step_reaches(const node *place, int step)
{
    char room[STEPS_ROOM];
    arguments a = { 0 };
    a.count = composed_edges(place, &a.edges);
    const char *steps = steps_of(place, &a, room);
    bool found = item_reaches(place, steps, &a, step_at(steps, step));
    mem_free(a.edges);
    return found;
}

static composed_way way_of(const node *place, const char *steps, const char *item, const arguments *a)
{
    const char *end = after_place(item), *name = *item == '&' ? step_at(steps, atoi(item + 1)) : item;
    if (end > item) {
        const bool step = *end == '&', good = place_reaches(place, a, item);
        return (composed_way){ good && step ? atoi(end + 1) : 0, good && step ? output_of(end) : 0,
                               good ? place_named(place, a, item) : NULL, -1 };
    }
    if (!is_name(name) || !item_reaches(place, steps, a, name))
        return (composed_way){ 0 };
    return (composed_way){ step_number(steps, name), output_of(item), (node *)place, -1 };
}

/* The first argument of an item that is none of `named`, which it is added to then; -1: there is none. */
static int argument_of(const char *at, int count, unsigned *named)
{
    for (const char *end = item_end(at); at < end; at = after(at)) {
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

static int ways_of_list(const node *place, const char *steps, const char *list, const arguments *a, composed_way *out)
{
    int n = 0;
    unsigned named = 0;
    for (const char *at = list, *end; *at && *at != ')'; at = *end == ',' ? end + 1 : end) {
        end = item_end(at);
        out[n] = way_of(place, steps, at, a);
        out[n++].argument = argument_of(at, a->count, &named);
    }
    return n;
}

/* The list that a step leads to; NULL: all arguments. */
static const char *list_of(const char *steps, int step)
{
    if (!steps || !step)
        return steps;
    const char *end = after(step_at(steps, step));
    return *end == '(' ? end + 1 : NULL;
}

int composed_ways(const node *place, int step, composed_way **out)
{
    char room[STEPS_ROOM];
    arguments a = { 0 };
    a.count = composed_edges(place, &a.edges);
    const char *steps = steps_of(place, &a, room), *list = list_of(steps, step);
    size_t size = list ? strlen(list) : (size_t)(a.count > 0 ? a.count : 1);
    *out = a.count < 0 ? NULL : mem_alloc_zero(size * sizeof **out);
    int count = *out ? a.count : -1;
    for (int k = 0; !list && k < count; k++)
        (*out)[k] = (composed_way){ .place = a.edges[k], .argument = k };
    if (list && count >= 0)
        count = ways_of_list(place, steps, list, &a, *out);
    mem_free(a.edges);
    return count;
}

/* --- where the work is -----------------------------------------------------------------------------------------------
 */

/* Whether the function of a step moves elements, and computes nothing. */
static bool only_moves(const char *name)
{
    static const char *const names[] = { "View",      "UnsafeView", "Squeeze", "Unsqueeze", "T",
                                         "Transpose", "Permute",    "Expand",  "Repeat",    "Clone" };
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) == 0 && strncmp(name + length, "Backward", strlen("Backward")) == 0)
            return true;
    }
    return false;
}

/* Whether all of an item is on the way to one argument. */
static bool leads_to_one(const char *at, int count)
{
    unsigned named = 0;
    argument_of(at, count, &named);
    return argument_of(at, count, &named) < 0;
}

/* The step that stands for all of the records: the first that computes something and leads to one argument in each of
 * its ways. */
static int working_step(const node *place, const char *steps, int count)
{
    for (int at = 0;; at++) { /* a step that leads to one other leads to the next */
        const char *list = list_of(steps, at), *end = list ? item_end(list) : NULL;
        const bool passes = list && is_name(list) && (!*end || *end == ')');
        if (!passes || (!only_moves(at ? step_at(steps, at) : composed_name(place)) && leads_to_one(list, count)))
            return at;
    }
}

static bool has_results(const composed *row)
{
    bool found = row->arguments[0] == '#';
    for (int i = 0; i < composed_count && !found; i++)
        found = composed_rows[i].arguments[0] == '#' && strcmp(composed_rows[i].arguments + 2, row->function) == 0;
    return found;
}

int composed_work(const node *place)
{
    char room[STEPS_ROOM];
    arguments a = { 0 };
    a.count = composed_edges(place, &a.edges);
    const int count = (int)strcspn(row_of(place)->arguments, FLAGS);
    const char *steps = steps_of(place, &a, room);
    const char *word = word_of(row_of(place));
    const bool within = word && layer_word(word) && !layer_joins(word);
    int work =
        within || has_results(row_of(place)) || (steps && strchr(steps, '@')) ? -1 : working_step(place, steps, count);
    const char *at = work < 0 ? NULL : list_of(steps, work);
    for (const char *end; at && *at && *at != ')'; at = *end == ',' ? end + 1 : end) {
        end = item_end(at);
        if (!leads_to_one(at, count))
            work = -1;
    }
    mem_free(a.edges);
    return work;
}

node *composed_shared(const node *place, int *step)
{
    const composed *row = place->composed ? row_of(place) : NULL;
    const char *from = row && *step && has_flag(row, '$') ? strchr(row->arguments, '$') : NULL;
    node **edges = NULL, *argument = NULL;
    if (from && *step >= from[1] - '0' && composed_edges(place, &edges) > 0)
        argument = edges[0];
    if (argument)
        *step -= from[1] - '0';
    mem_free(edges);
    return argument;
}

bool composed_turns(const node *place, int step)
{
    char name[64];
    composed_step_name(place, step, name);
    return strcmp(name, "TBackward0") == 0;
}

void composed_step_name(const node *place, int step, char name[static 64])
{
    char room[STEPS_ROOM];
    arguments a = { 0 };
    a.count = word_of(row_of(place)) ? composed_edges(place, &a.edges) : 0;
    const char *at = step_at(steps_of(place, &a, room), step);
    snprintf(name, 64, "%.*s", (int)(after_name(at) - at), at);
    mem_free(a.edges);
}

/* --- functions of several results ------------------------------------------------------------------------------------
 */

/* The nearest place below that has the row: a few steps away. */
static node *nearest(const node *place, int row)
{
    trail seen = { 0 };
    node *found = NULL;
    bool good = trail_meet(&seen, (node *)place);
    for (int i = 0; good && !found && i < seen.count; i++) {
        if (seen.v[i]->composed == row + 1)
            found = seen.v[i];
        for (int k = 0; good && !found && k < MAX_INPUTS && seen.v[i]->op != OP_leaf && seen.v[i]->op != OP_function;
             k++)
            good = trail_meet(&seen, seen.v[i]->edge[k]);
    }
    trail_unmark(&seen);
    trail_free(&seen);
    return found;
}

/* The one of several parts that a place is made of; NULL: none. */
static const node *part_under(const node *place)
{
    while (place && place->op != OP_leaf && place->op != OP_function && !view_is_part(place))
        place = place->edge[0];
    return place && view_is_part(place) ? place : NULL;
}

int composed_results(const node *place)
{
    const composed *row = row_of(place);
    const char *count = row ? strchr(row->arguments, '|') : NULL;
    const node *part = row && has_flag(row, '%') ? part_under(place->edge[0]) : NULL;
    parts all;
    return count ? count[1] - '0' : part && parts_of(part, &all) ? all.count : 1;
}

int composed_output(const node *place)
{
    const composed *row = row_of(place);
    const node *part = row && has_flag(row, '%') ? part_under(place) : NULL;
    if (part)
        return view_part(part);
    const bool several = row && row->arguments[0] != '*' && strcspn(row->arguments, FLAGS) <= COMPOSED_OUTPUT_SHIFT;
    return several ? place->reached >> COMPOSED_OUTPUT_SHIFT : 0;
}

node *composed_function(node *place, int *number)
{
    const composed *row = place->composed ? row_of(place) : NULL;
    const char *mark = row ? strchr(row->arguments, '#') : NULL;
    if (!mark || mark != row->arguments)
        return place;
    lock_take();
    node *function = nearest(place, composed_find(mark + 2));
    lock_give();
    if (function)
        *number = mark[1] - '0';
    return function ? function : place;
}
