/* random.c: the MT19937 generator and its state; distributions.c makes numbers of its words.
 *
 * Invariant: state[position .. RNG_WORDS) are the words not handed out yet, untempered. They are made and tempered a
 * block at a time, in loops without a carried dependence shorter than 227 words, which compilers vectorise. */
#include "core/random.h"
#include "core/error.h"

#include <string.h>

enum { SHIFT = 397 }; /* the m of MT19937 */

void rng_seed(rng *r, uint64_t seed)
{
    *r = (rng){ .seed = seed, .position = RNG_WORDS, .fresh = true };
    r->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < RNG_WORDS; i++)
        r->state[i] = 1812433253u * (r->state[i - 1] ^ (r->state[i - 1] >> 30)) + i;
}

/* The upper bit of one word and the rest of the next, times the twist matrix. */
static inline uint32_t twist(uint32_t a, uint32_t b)
{
    uint32_t y = (a & 0x80000000u) | (b & 0x7fffffffu);
    return (y >> 1) ^ (-(b & 1u) & 0x9908b0dfu);
}

static void next_block(rng *r)
{
    uint32_t *s = r->state;
    for (int i = 0; i < RNG_WORDS - SHIFT; i++)
        s[i] = s[i + SHIFT] ^ twist(s[i], s[i + 1]);
    for (int i = RNG_WORDS - SHIFT; i < RNG_WORDS - 1; i++)
        s[i] = s[i + SHIFT - RNG_WORDS] ^ twist(s[i], s[i + 1]);
    s[RNG_WORDS - 1] = s[SHIFT - 1] ^ twist(s[RNG_WORDS - 1], s[0]);
    r->position = 0;
    r->fresh = false;
}

static inline uint32_t temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint32_t rng_u32(rng *r)
{
    if (r->position == RNG_WORDS)
        next_block(r);
    return temper(r->state[r->position++]);
}

uint64_t rng_u64(rng *r)
{
    uint64_t upper = rng_u32(r);
    return upper << 32 | rng_u32(r);
}

void rng_fill_u32(rng *r, uint32_t *restrict out, int64_t n)
{
    while (n > 0) {
        if (r->position == RNG_WORDS)
            next_block(r);
        int64_t left = RNG_WORDS - r->position;
        int64_t count = n < left ? n : left;
        const uint32_t *s = r->state + r->position;
        for (int64_t i = 0; i < count; i++)
            out[i] = temper(s[i]);
        r->position += (int)count;
        out += count;
        n -= count;
    }
}

/* --- the state as PyTorch lays it out ---------------------------------------------------------------------- */

typedef struct torch_state {
    uint64_t seed;
    int32_t left; /* words to hand out before the next block is made, plus one */
    int32_t seeded;
    uint64_t next;             /* position; 0 when fresh */
    uint64_t state[RNG_WORDS]; /* a word each */
    double unused_x;
    double next_normal;
    double unused_rho;
    int32_t has_next_normal;
    float unused_float;
    int32_t has_unused_float;
    int32_t padding;
} torch_state;

_Static_assert(sizeof(torch_state) == RNG_STATE_BYTES, "the layout has no holes that a compiler may choose");

void rng_get_state(const rng *r, void *bytes)
{
    torch_state s = { .seed = r->seed,
                      .left = RNG_WORDS - r->position + 1,
                      .seeded = 1,
                      .next = r->fresh ? 0 : (uint64_t)r->position,
                      .next_normal = r->has_next_normal ? r->next_normal : 0,
                      .has_next_normal = r->has_next_normal };
    for (int i = 0; i < RNG_WORDS; i++)
        s.state[i] = r->state[i];
    memcpy(bytes, &s, sizeof s);
}

/* `left` and `next` say the same but for a fresh state, which has left == 1 and next == 0. */
static bool state_is_valid(const torch_state *s)
{
    bool fresh = s->left == 1 && s->next == 0;
    return s->seeded && s->next <= RNG_WORDS && (fresh || (uint64_t)s->left + s->next == RNG_WORDS + 1);
}

int rng_set_state(rng *r, const void *bytes, int64_t count)
{
    if (count != RNG_STATE_BYTES)
        return error_int(BK_RUNTIME_ERROR,
                         "Expected an RNG state of size %d but found the input RNG state size to be %lld",
                         RNG_STATE_BYTES, (long long)count);
    torch_state s;
    memcpy(&s, bytes, sizeof s);
    if (!state_is_valid(&s))
        return error_int(BK_RUNTIME_ERROR, "Invalid mt19937 state");
    *r = (rng){ .seed = s.seed,
                .position = RNG_WORDS + 1 - s.left,
                .fresh = s.next == 0,
                .has_next_normal = s.has_next_normal != 0,
                .next_normal = s.next_normal };
    for (int i = 0; i < RNG_WORDS; i++)
        r->state[i] = (uint32_t)s.state[i];
    return 0;
}
