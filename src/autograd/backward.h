/* backward.h: the reverse pass without its evaluation, for front ends that evaluate in their own way. */
#ifndef BK_AUTOGRAD_BACKWARD_H
#define BK_AUTOGRAD_BACKWARD_H
#include "brisk.h"

int backward_record(bk_tensor *t, const bk_tensor *gradient, bool retain_graph, bool create_graph);
/* A callback has failed and keeps its own error. */
void callback_failed(void);

#endif
