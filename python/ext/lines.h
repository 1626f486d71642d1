/* lines.h: which line of the user's asked for a record. */
#ifndef BK_LINES_H
#define BK_LINES_H

/* From here on every record notes the running code object and instruction. */
void lines_init(void);

#endif
