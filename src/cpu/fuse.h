/* fuse.h: joining pairs of steps. */
#ifndef BK_CPU_FUSE_H
#define BK_CPU_FUSE_H
#include "cpu/program.h"

/* Joins arithmetic steps in pairs and numbers the registers anew; before program_shape has added those of the ports. */
void program_fuse(ew_program *p);

#endif
