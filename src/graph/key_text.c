/* key_text.c: see key_text.h.
 *
 * The text is a list of runs. A run without a period is so many records as they stand. One with a period p has p
 * differences: each of its records is the one p before it, and the difference of its place in the period, word by word.
 *
 * Invariant: given the records before a run, those of the run follow from its text. So records are those of the text if
 * and only if each run agrees. */
#include "graph/key_text.h"

#include <stddef.h>
#include <string.h>

#include "core/memory.h"
#include "graph/desk.h"

enum { WORDS = sizeof(record_key) / sizeof(uint32_t), HEADS = 512, WORTHWHILE = 3 /* periods */ };
_Static_assert(WORDS * sizeof(uint32_t) == sizeof(record_key), "a record is whole words");

typedef uint32_t word __attribute__((may_alias));

typedef struct key_run {
    int32_t count, period; /* records; 0: as they stand */
} key_run;

struct key_text {
    int64_t bytes;
    int runs;
    int32_t unused;
    key_run run[]; /* behind them the words of each */
};

static inline const word *words_of(const record_key *r) { return (const word *)r; }

/* Whether `count` words differ from those that stand `back` words before by d. */
static inline bool differ_by(const word *w, size_t back, const word *d, size_t count)
{
    uint32_t other = 0;
    for (size_t i = 0; i < count; i++)
        other |= (w[i] - w[(ptrdiff_t)i - (ptrdiff_t)back]) ^ d[i];
    return !other;
}

static size_t run_words(const key_run *r) { return (size_t)(r->period ? r->period : r->count) * WORDS; }

bool key_text_is(const key_text *text, const record_key *records)
{
    const word *w = words_of(records), *t = (const word *)(text->run + text->runs);
    for (int i = 0; i < text->runs; i++) {
        const key_run *r = &text->run[i];
        const size_t step = run_words(r);
        if (!r->period && memcmp(w, t, step * sizeof *w))
            return false;
        for (int at = 0; r->period && at < r->count; at += r->period)
            if (!differ_by(w + (size_t)at * WORDS, step, t, step))
                return false;
        w += (size_t)r->count * WORDS;
        t += step;
    }
    return true;
}

/* The same but for a record's readers: later records add to these. */
static bool begin_as(const word *w, size_t back, const word *d, size_t count)
{
    enum { READERS = offsetof(record_key, readers) / sizeof(word) };
    uint32_t other = 0;
    for (size_t i = 0; i < count; i++)
        other |= i % WORDS == READERS ? 0 : (w[i] - (back ? w[(ptrdiff_t)i - (ptrdiff_t)back] : 0)) ^ d[i];
    return !other;
}

bool key_text_goes_on(const key_text *text, key_place *at, const record_key *records, int end)
{
    const word *t = (const word *)(text->run + text->runs);
    while (at->records < end) {
        for (; at->records == at->first + text->run[at->run].count; at->run++) {
            at->first += text->run[at->run].count;
            at->words += run_words(&text->run[at->run]);
        }
        const key_run *run = &text->run[at->run];
        const int into = at->records - at->first, from = run->period ? into % run->period : into;
        int count = run->period ? run->period - from : run->count - from;
        count = count < end - at->records ? count : end - at->records;
        const word *w = words_of(&records[at->records]), *d = t + at->words + (size_t)from * WORDS;
        const size_t back = (size_t)run->period * WORDS, words = (size_t)count * WORDS;
        const bool same = back ? differ_by(w, back, d, words) : !memcmp(w, d, words * sizeof *w); /* most are */
        if (!same && !begin_as(w, back, d, words))
            return false;
        at->records += count;
    }
    return true;
}

int64_t key_text_bytes(const key_text *text) { return text->bytes; }

/* --- finding runs --------------------------------------------------------------------------------------------------
 */

typedef struct writer {
    const record_key *records;
    int count;
    int budget;          /* records that may still be compared in vain */
    int32_t last[HEADS]; /* 1 + the latest record with a head like this */
    key_run *runs;
    int run_count;
    word *text;
    size_t words;
} writer;

static inline uint64_t head_of(const record_key *r)
{
    uint64_t head;
    memcpy(&head, r, sizeof head); /* layout, inputs, dtype, op */
    return head;
}

static inline int32_t *slot_of(writer *w, int i)
{
    return &w->last[head_of(&w->records[i]) * 0x9E3779B97F4A7C15ull >> 55];
}

/* Whether words are to those before them, so many back, what those are to the ones before them. */
static inline bool words_go_on(const word *c, ptrdiff_t back, ptrdiff_t count)
{
    const word *b = c - back, *a = b - back;
    uint32_t other = 0;
    for (ptrdiff_t k = 0; k < count; k++)
        other |= (c[k] - b[k]) ^ (b[k] - a[k]);
    return !other;
}

static bool goes_on(const writer *w, int i, int period)
{
    return words_go_on(words_of(&w->records[i]), (ptrdiff_t)period * WORDS, WORDS);
}

static bool period_goes_on(const writer *w, int i, int period)
{
    return words_go_on(words_of(&w->records[i]), (ptrdiff_t)period * WORDS, (ptrdiff_t)period * WORDS);
}

/* How many records from i on have this period, whole ones; 0: not enough to be worth while. */
static int run_length(writer *w, int i, int period)
{
    const record_key *r = w->records;
    if (period > i || (int64_t)i + (int64_t)WORTHWHILE * period > w->count ||
        head_of(&r[i]) != head_of(&r[i + period]) || head_of(&r[i]) != head_of(&r[i - period]))
        return 0;
    int end = i + period;
    for (; end < i + WORTHWHILE * period; end++)
        if (!goes_on(w, end, period)) {
            w->budget -= end - i - period;
            return 0;
        }
    while (end + period <= w->count && period_goes_on(w, end, period))
        end += period;
    return end - i;
}

static void write_plain(writer *w, int i)
{
    if (!w->run_count || w->runs[w->run_count - 1].period)
        w->runs[w->run_count++] = (key_run){ 0, 0 };
    w->runs[w->run_count - 1].count++;
    memcpy(w->text + w->words, &w->records[i], sizeof *w->records);
    w->words += WORDS;
    *slot_of(w, i) = i + 1;
}

static void write_run(writer *w, int i, int period, int length)
{
    const word *c = words_of(&w->records[i]), *b = c - (ptrdiff_t)period * WORDS;
    w->runs[w->run_count++] = (key_run){ length, period };
    for (int k = 0; k < period * WORDS; k++)
        w->text[w->words++] = c[k] - b[k];
    for (int k = i + length - period; k < i + length; k++)
        *slot_of(w, k) = k + 1;
}

static void write_all(writer *w)
{
    for (int i = 0; i < w->count;) {
        const int before = *slot_of(w, i), period = i + 1 - before;
        const int length = before && w->budget > 0 ? run_length(w, i, period) : 0;
        if (length)
            write_run(w, i, period, length);
        else
            write_plain(w, i);
        i += length ? length : 1;
    }
}

key_text *key_text_new(const record_key *records, int count)
{
    writer w = { .records = records, .count = count, .budget = 4 * count };
    const size_t mark = desk_mark();
    w.runs = desk_take(((size_t)count + 1) * sizeof *w.runs);
    w.text = desk_take((size_t)count * sizeof *records + 1);
    if (!w.runs || !w.text)
        return NULL;
    write_all(&w);
    const size_t runs = (size_t)w.run_count * sizeof *w.runs, text = w.words * sizeof *w.text;
    key_text *made = mem_alloc(sizeof *made + runs + text);
    if (!made)
        return NULL;
    *made = (key_text){ .bytes = (int64_t)(sizeof *made + runs + text), .runs = w.run_count };
    if (count) {
        memcpy(made->run, w.runs, runs);
        memcpy(made->run + w.run_count, w.text, text);
    }
    desk_release(mark);
    return made;
}
