/* cache.c: plans by their key.
 *
 * Invariant: every plan is in one bucket and in the order of use; the sum of their sizes stays below the bound, the
 * least recently used going first. A find compares the whole key, so two logs never share a plan by accident; one that
 * is the same as the last is found without a hash. */
#include "graph/plan.h"

#include <string.h>

#include "core/error.h"

enum { BUCKETS = 4096 };
static const int64_t MOST_BYTES = (int64_t)256 << 20;

static struct {
    plan *bucket[BUCKETS];
    plan *oldest, *newest;
    cache_counts counts;
} cache;

static bool is_of(const plan *p, const plan_key *b)
{
    const plan_key *a = &p->key;
    return a->recorded == b->recorded && a->rewrites == b->rewrites && a->records == b->records &&
           a->leaves == b->leaves && !memcmp(a->bits, b->bits, (size_t)a->records) &&
           !memcmp(a->leaf, b->leaf, (size_t)a->leaves * sizeof(leaf_key)) && key_text_is(p->text, b->record);
}

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const char *p = bytes;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 32;
    }
    for (; n; p++, n--)
        h = (h ^ (uint8_t)*p) * 0xBF58476D1CE4E5B9ull;
    return h ^ (h >> 29);
}

static uint64_t hash_key(const plan_key *key)
{
    uint64_t h = hash_bytes(key->recorded, key->bits, (size_t)key->records);
    return hash_bytes(h, key->leaf, (size_t)key->leaves * sizeof(leaf_key));
}

static void unlink_order(plan *p)
{
    *(p->older ? &p->older->newer : &cache.oldest) = p->newer;
    *(p->newer ? &p->newer->older : &cache.newest) = p->older;
}

static void link_newest(plan *p)
{
    p->older = cache.newest;
    p->newer = NULL;
    *(cache.newest ? &cache.newest->newer : &cache.oldest) = p;
    cache.newest = p;
}

static plan **bucket_of(uint64_t hash) { return &cache.bucket[(hash >> 20) % BUCKETS]; }

plan *cache_newest(void) { return cache.newest; }

plan *cache_find(const plan_key *key)
{
    if (cache.newest && is_of(cache.newest, key)) {
        cache.counts.hits++;
        return cache.newest;
    }
    for (plan *p = *bucket_of(hash_key(key)); p; p = p->next) {
        if (!is_of(p, key))
            continue;
        unlink_order(p);
        link_newest(p);
        cache.counts.hits++;
        return p;
    }
    cache.counts.misses++;
    return NULL;
}

static void forget(plan *p)
{
    plan **link = bucket_of(p->hash);
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    unlink_order(p);
    cache.counts.plans--;
    cache.counts.bytes -= p->bytes;
    plan_free(p);
}

void cache_add(plan *p)
{
    while (cache.oldest && !cache.oldest->begun && cache.counts.bytes + p->bytes > MOST_BYTES)
        forget(cache.oldest);
    p->hash = hash_key(&p->key);
    plan **bucket = bucket_of(p->hash);
    p->next = *bucket;
    *bucket = p;
    link_newest(p);
    cache.counts.plans++;
    cache.counts.bytes += p->bytes;
}

void cache_clear(void)
{
    for (plan *p = cache.oldest, *newer; p; p = newer) {
        newer = p->newer;
        if (!p->begun)
            forget(p);
    }
}

cache_counts cache_count(void) { return cache.counts; }

/* --- BRISK_CHECK_PLAN --------------------------------------------------------------------------------------------- */

static bool same_view(const plan_view *a, const plan_view *b)
{
    return a->buffer == b->buffer && a->dtype == b->dtype && a->offset == b->offset && a->layout == b->layout;
}

static bool same_program(const plan_program *a, const plan_program *b)
{
    const ew_program *p = a->program, *q = b->program;
    if (!p || !q)
        return p == q;
    if (p->ports != q->ports || p->steps != q->steps || p->registers != q->registers || p->numel != q->numel ||
        memcmp(p->step, q->step, (size_t)p->steps * sizeof *p->step))
        return false;
    for (int i = 0; i < p->ports; i++)
        if (!same_view(&a->ports[i], &b->ports[i]))
            return false;
    if (a->sink_count != b->sink_count || a->dims != b->dims)
        return false;
    for (int i = 0; i < a->sink_count; i++) {
        const plan_sink *s = &a->sinks[i], *t = &b->sinks[i];
        if (s->kind != t->kind || s->mean != t->mean || s->port != t->port || !same_view(&s->out, &t->out))
            return false;
    }
    return true;
}

static bool same_kernel(const instruction *a, const instruction *b)
{
    if (a->kernel.inputs != b->kernel.inputs || a->kernel.has_second != b->kernel.has_second ||
        !same_view(&a->kernel.out, &b->kernel.out) || memcmp(&a->kernel.attr, &b->kernel.attr, sizeof(attr)))
        return false;
    for (int k = 0; k < a->kernel.inputs; k++)
        if (!same_view(&a->kernel.in[k], &b->kernel.in[k]))
            return false;
    return a->kernel.packed == b->kernel.packed && a->kernel.packs == b->kernel.packs &&
           a->kernel.loose == b->kernel.loose && a->kernel.keeps == b->kernel.keeps &&
           same_view(&a->kernel.addend, &b->kernel.addend) && a->kernel.addend_row == b->kernel.addend_row &&
           same_program(&a->kernel.epilogue, &b->kernel.epilogue);
}

static bool same_share(const sum_share *a, const sum_share *b)
{
    return a->by_rows == b->by_rows && a->first == b->first && a->last == b->last && a->sets == b->sets &&
           a->partial == b->partial;
}

static bool same_sum(const instruction *a, const instruction *b)
{
    int views = a->sum.count * (a->sum.products ? 2 : 1);
    if (a->sum.count != b->sum.count || a->sum.products != b->sum.products || a->sum.begins != b->sum.begins ||
        !same_share(&a->sum.share, &b->sum.share) || !same_view(&a->sum.out, &b->sum.out))
        return false;
    for (int i = 0; i < views; i++)
        if (!same_view(&a->sum.terms[i], &b->sum.terms[i]))
            return false;
    return true;
}

static bool same_instruction(const instruction *a, const instruction *b)
{
    if (a->kind != b->kind || a->record != b->record || a->waits != b->waits)
        return false;
    switch (a->kind) {
    case DO_PROGRAM: return same_program(&a->elementwise, &b->elementwise);
    case DO_COPY: return same_view(&a->copy.to, &b->copy.to) && same_view(&a->copy.from, &b->copy.from);
    case DO_KERNEL: return same_kernel(a, b);
    case DO_SUM: return same_sum(a, b);
    case INSTRUCTION_KINDS: break;
    }
    return false;
}

int plan_check(const plan *p, const op_log *log, const plan_key *key)
{
    plan *q = plan_make(log, key);
    if (!q)
        return -1;
    bool equal = p->code_count == q->code_count && p->buffer_count == q->buffer_count &&
                 p->kept_count == q->kept_count && p->arena_bytes == q->arena_bytes &&
                 p->region_count == q->region_count &&
                 !memcmp(p->kept, q->kept, (size_t)p->kept_count * sizeof *p->kept);
    for (int i = 0; equal && i < p->region_count; i++)
        equal = p->regions[i].first == q->regions[i].first && p->regions[i].end == q->regions[i].end;
    for (int i = 0; equal && i < p->code_count; i++)
        equal = same_instruction(&p->code[i], &q->code[i]);
    plan_free(q);
    return equal ? 0
                 : error_int(BK_RUNTIME_ERROR, "brisk: a cached plan differs from a new one (this is a bug in brisk)");
}
