/* turn_stages.h: STAGES_n(v) transposes the n vectors of n lanes in v, in registers: log2(n) rounds of exchanges.
 *
 * Before: VEC (the vector type) and UNROLL, where the stages are used. */
#ifndef BK_CPU_TURN_STAGES_H
#define BK_CPU_TURN_STAGES_H

/* The lanes of two vectors that change places at distance d: LOW_n_d keeps those of the first whose bit d is clear and
 * fills up with those of the second; HIGH_n_d are the others. */
/* clang-format off */
#define LOW_2_1   0, 2
#define HIGH_2_1  1, 3
#define LOW_4_1   0, 4, 2, 6
#define HIGH_4_1  1, 5, 3, 7
#define LOW_4_2   0, 1, 4, 5
#define HIGH_4_2  2, 3, 6, 7
#define LOW_8_1   0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_8_1  1, 9, 3, 11, 5, 13, 7, 15
#define LOW_8_2   0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_8_2  2, 3, 10, 11, 6, 7, 14, 15
#define LOW_8_4   0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_8_4  4, 5, 6, 7, 12, 13, 14, 15
#define LOW_16_1  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_16_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_16_2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_16_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_16_4  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_16_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_16_8  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_16_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
/* clang-format on */

/* One stage on all pairs of rows whose numbers differ by d alone. */
#define STAGE(v, lanes, d)                                                                                             \
    UNROLL for (int i = 0; i < lanes; i++)                                                                             \
    {                                                                                                                  \
        if (i & d)                                                                                                     \
            continue;                                                                                                  \
        const VEC first = v[i], second = v[i + d];                                                                     \
        v[i] = __builtin_shufflevector(first, second, LOW_##lanes##_##d);                                              \
        v[i + d] = __builtin_shufflevector(first, second, HIGH_##lanes##_##d);                                         \
    }
#define STAGES_2(v)  STAGE(v, 2, 1)
#define STAGES_4(v)  STAGE(v, 4, 2) STAGE(v, 4, 1)
#define STAGES_8(v)  STAGE(v, 8, 4) STAGE(v, 8, 2) STAGE(v, 8, 1)
#define STAGES_16(v) STAGE(v, 16, 8) STAGE(v, 16, 4) STAGE(v, 16, 2) STAGE(v, 16, 1)

#endif
