/* composed.h: functions of several records that look like one on the tape (composed.def).
 *
 * Gradients go through the records as through any others. Only who looks at the tape is shown one function: its name,
 * and the places of its arguments, which a walk finds from the last record through all that were made since the
 * function was called. */
#ifndef BK_AUTOGRAD_COMPOSED_H
#define BK_AUTOGRAD_COMPOSED_H
#include "core/tensor.h"

struct trail;

typedef struct composed {
    const char *function, *name, *arguments;
} composed;
extern const composed composed_rows[];
extern const int composed_count;

/* The number of an argument in a row's text, which says in the same letter whether it may be missing. */
static inline int composed_argument(char c) { return c >= 'a' ? c - 'a' : c - '0'; }
/* The first row of a function; -1: it has none. */
int composed_find(const char *function);
/* t is what a call of row `number` gave, which began when next_sequence was `start`; reached: a bit for each of the
 * row's arguments that requires gradients, and (of up to six) which of several results it is; of a list, how many are
 * before the first that requires gradients; of a recurrent layer, LAYER_... (layer_steps.h). */
enum { COMPOSED_OUTPUT_SHIFT = 6 };
void composed_mark(bk_tensor *t, int number, uint64_t start, uint8_t reached);
/* The same of one of the results in a tuple. */
void composed_mark_several(bk_tensor *t, int number, uint64_t start, uint8_t reached, int output);
/* The write of a part that was written to: the op inside of it, or what the base has become. */
void composed_mark_base(bk_tensor *part, int number, uint64_t start, uint8_t reached);
/* What the place of t leads to is the place of row `number`. */
void composed_mark_below(bk_tensor *t, int number, uint64_t start, uint8_t reached);
/* The same inside of another function: t, or NULL, was given for these arguments of the row (NULL: not there), which
 * *row remembers. */
bk_tensor *composed_as(bk_tensor *t, const char *function, int *row, uint64_t start, const bk_tensor *const *arguments,
                       int count);
/* A row that is made for some calls: what PyTorch has for them, all functions from the last on, in the language of
 * composed.def; order: of the arguments in a walk. Its number, -1: there are too many. With the lock. */
int composed_form(const char *functions, const char *order);
/* t was given for these arguments by a call of that row. */
bk_tensor *composed_as_form(bk_tensor *t, int form, uint64_t start, const bk_tensor *const *arguments,
                            const char *order);
/* The name that a place has from its row; NULL: none. */
const char *composed_name(const node *place);
/* Where a place that has a row leads to, in the order of the arguments; NULL where no gradient goes. The count, or -1
 * when memory is out; *out is the caller's to free. */
int composed_edges(const node *place, node ***out);
/* The same; ranks: which of the arguments a walk comes to first, and so on, for rows that are no lists. */
int composed_edges_ranked(const node *place, node ***out, int ranks[static 8]);
/* When the call of a place's function began, where PyTorch has that one function for all of its records; else 0. */
uint64_t composed_start(const node *place);
/* All edges that lead out of the function, in the order of that walk: v[2 k] leads to v[2 k + 1]. */
bool composed_crossings(const node *place, struct trail *out);

/* Functions that PyTorch has between the result and the arguments, and that are inside of ours, are shown as steps of
 * the place. They are numbered from 1 as the row names them; 0 is the result. */
typedef struct composed_way {
    int step;   /* 0: it leads to `place` (NULL: nowhere); else to this step of it */
    int number; /* which output of the step */
    node *place;
    int argument; /* the first that it leads to, of those that no way before it does; -1: none */
} composed_way;
/* Where a step leads to; counts and frees as above. */
int composed_ways(const node *place, int step, composed_way **out);
/* The step that stands for all of the records: the first that computes something and leads to one argument in each of
 * its ways. -1: there is none, where arguments meet further down, or results share a function. */
int composed_work(const node *place);
/* Of a step that all functions with the same argument share: the argument's place, and which of those steps it is;
 * NULL: it is this place's own. */
node *composed_shared(const node *place, int *step);
/* Whether a step is a transpose. */
bool composed_turns(const node *place, int step);
/* Whether its result is a view of one inside, in PyTorch. */
bool composed_is_view(const node *place);
bool composed_is_view_name(const char *name);
/* Views and casts that a function made of its arguments, and that PyTorch shows; whether it does for this place. */
bool composed_shows(const node *n);
bool composed_shows_views(const node *place);
/* The name of a step that is not the result. */
void composed_step_name(const node *place, int step, char name[static 64]);
/* How big the value at a place is; NULL: of no place. */
const layout *place_layout(const node *place);
/* Whether it is no function of PyTorch's, but leads to one; whether it joins rows, and its edges have those. */
bool composed_passes(const node *place);
bool composed_joins(const node *place);
/* Which of several results a place is, and of how many. */
int composed_output(const node *place);
int composed_results(const node *place);
/* A place that is one of several results of a function with a place of its own: that, and which one it is; else
 * itself. */
node *composed_function(node *place, int *number);

#endif
