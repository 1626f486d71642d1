/* vmath_series.h: coefficients of the series that stand both in kernels (vmath_erf.h) and in machine code
 * (emit_math.c), from the constant term up; what they are series of stands in vmath_erf.h. */
#ifndef BK_CPU_VMATH_SERIES_H
#define BK_CPU_VMATH_SERIES_H

#define ERF_SERIES 0.128379166f, -0.376126081f, 0.112831622f, -0.0268222429f, 0.00508686574f, -0.000654225121f

#define ERFC_FIRST  0.0215827078f
#define ERFC_SECOND -0.687160671f
#define ERFC_REST                                                                                                      \
    0.279471755f, -0.0364422761f, -0.0215055924f, 0.00647881813f, 0.00306284358f, -0.000839216169f, -0.000595316931f,  \
        5.31310907e-05f, 7.33962952e-05f

#define NORMAL_SERIES                                                                                                  \
    0.172408f, -0.331404477f, 0.0287973452f, 0.0367194116f, -0.000469408144f, -0.00673441635f, -0.00195317203f,        \
        0.000822717673f, 0.000839693821f, 0.000135136826f, -0.000151344342f, -6.7255467e-05f

#define ERFINV_CENTRE                                                                                                  \
    0.8862269f, 0.23201427f, 0.011546025f, -0.0023284731f, -1.338552e-4f, 4.84421e-5f, 2.6100217e-6f, -1.6950169e-6f,  \
        1.9011145e-7f, -7.3829e-9f
#define ERFINV_TAIL                                                                                                    \
    2.9332316f, 1.003356f, 0.0074607236f, -0.0056943307f, 0.004113666f, -0.0027286315f, 0.0013513986f, -2.6840277e-4f, \
        -1.9178374e-4f, 1.1538386e-4f

#endif
