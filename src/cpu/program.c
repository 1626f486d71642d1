/* program.c: running a fused group tile by tile.
 *
 * Invariant: a tile is a stretch of iteration order: some whole rows, or a piece of one row. Every port shows the same
 * stretch: directly when its memory is dense there, through its register otherwise. Tiles are independent, so their
 * split over threads changes nothing in the result. */
#include "cpu/program.h"

#include <string.h>

#include "core/threads.h"
#include "cpu/emit.h"
#include "cpu/fuse.h"

enum {
    TILE_BYTES = 2048,        /* a register of float32; twice as much is 10% slower over far memory, 4 times 40% */
    STACK_BYTES = 192 * 1024, /* registers live on the thread's stack: running allocates nothing */
    SHORT_ROW = 256,          /* rows shorter than this share a tile; half of it where rows lie apart */
    LINE_BYTES = 64,
    NEAR_BYTES = 2048 * 1024, /* programs over less memory than this find it in L2 */
};

/* --- shaping ------------------------------------------------------------------------------------------------- */

/* The order of dimensions that walks the first output's memory forward. */
static void sort_dimensions(const view *lead, int order[static BK_MAX_NDIM])
{
    for (int d = 0; d < lead->ndim; d++) {
        int at = d;
        for (; at > 0 && lead->strides[order[at - 1]] < lead->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

static bool mergeable(const ew_program *p, int64_t size, const view *ports, int d)
{
    int last = p->ndim - 1;
    for (int i = 0; i < p->ports; i++)
        if (p->port[i].strides[last] != ports[i].strides[d] * p->port[i].size * size)
            return false;
    return true;
}

/* Iteration dimensions, outermost first, with neighbours merged where every port allows it. */
static void collapse(ew_program *p, const view *ports, const view *lead)
{
    int order[BK_MAX_NDIM];
    sort_dimensions(lead, order);
    p->ndim = 0;
    p->numel = 1;
    for (int o = 0; o < lead->ndim; o++) {
        int d = order[o];
        int64_t size = lead->sizes[d];
        p->numel *= size;
        if (size == 1)
            continue;
        bool merge = p->ndim > 0 && mergeable(p, size, ports, d);
        int at = merge ? p->ndim - 1 : p->ndim++;
        p->sizes[at] = merge ? p->sizes[at] * size : size;
        for (int i = 0; i < p->ports; i++)
            p->port[i].strides[at] = ports[i].strides[d] * p->port[i].size;
    }
    if (p->ndim == 0) {
        p->sizes[p->ndim++] = 1;
        for (int i = 0; i < p->ports; i++)
            p->port[i].strides[0] = p->port[i].size;
    }
    if (p->numel == 0) { /* nothing to do: one empty row, whose tiles have a size all the same */
        p->ndim = 1;
        p->sizes[0] = 1;
    }
    p->inner = p->sizes[p->ndim - 1];
}

static bool is_line(const ew_program *p, const ew_port *port)
{
    int64_t expect = port->size;
    for (int d = p->ndim - 1; d >= 0; d--) {
        if (port->strides[d] != expect)
            return false;
        expect *= p->sizes[d];
    }
    return true;
}

static bool is_fixed(const ew_program *p, const ew_port *port)
{
    for (int d = 0; d < p->ndim - 1; d++)
        if (port->strides[d])
            return false;
    bool whole_rows = p->rows_per_tile > 1 || p->columns_per_tile >= p->inner;
    return port->strides[p->ndim - 1] == 0 || (whole_rows && p->ndim > 1);
}

/* Whether several ports have their rows apart, as parts of wider ones: a tile of several rows would have to gather each
 * of them, a single row is used where it lies. */
static bool rows_lie_apart(const ew_program *p)
{
    int apart = 0;
    for (int i = 0; i < p->ports; i++) {
        const ew_port *port = &p->port[i];
        apart += port->strides[p->ndim - 1] == port->size && port->strides[p->ndim - 2] > p->inner * port->size;
    }
    return apart > 1;
}

static void cut_tiles(ew_program *p, int64_t tile)
{
    bool shorter = p->ndim > 1 && p->inner < (rows_lie_apart(p) ? SHORT_ROW / 2 : SHORT_ROW);
    if (shorter && p->inner && p->inner <= tile) {
        p->columns_per_tile = p->inner;
        int64_t rows = p->numel / p->inner; /* at least 2, or the dimension would be merged */
        p->rows_per_tile = rows < tile / p->inner ? rows : tile / p->inner;
    } else {
        p->columns_per_tile = p->inner < tile ? p->inner : tile;
        p->rows_per_tile = 1;
    }
}

/* How many cache lines of the next tile each step asks for. */
static void look_far(ew_program *p)
{
    int64_t element = 0;
    for (int i = 0; i < p->ports; i++)
        if (p->port[i].mode == PORT_LINE)
            element += p->port[i].size;
    int64_t lines = p->rows_per_tile * p->columns_per_tile * element / LINE_BYTES;
    p->lines_per_step = p->steps > 1 && p->numel * element > NEAR_BYTES ? (int)(lines / p->steps + 1) : 0;
}

void program_shape(ew_program *p, const view *ports, const bool *writes, const view *leader)
{
    program_fuse(p);
    const view *lead = &ports[0];
    int widest = 1;
    for (int i = p->ports - 1; i >= 0; i--) {
        p->port[i] = (ew_port){ .size = (uint8_t)dtype_size(ports[i].dtype), .writes = writes[i], .reg = -1 };
        if (writes[i])
            lead = &ports[i];
        if (p->port[i].size > widest)
            widest = p->port[i].size;
    }
    collapse(p, ports, leader ? leader : lead);
    int64_t most = p->registers + p->ports;
    int64_t tile = TILE_BYTES / 4;
    while (tile > 64 && tile * 8 * most > STACK_BYTES)
        tile /= 2;
    cut_tiles(p, tile);
    p->register_bytes = (p->rows_per_tile * p->columns_per_tile * 8 + 63) / 64 * 64;
    for (int i = 0; i < p->ports; i++) {
        ew_port *port = &p->port[i];
        port->mode = is_line(p, port) ? PORT_LINE : !port->writes && is_fixed(p, port) ? PORT_FIXED : PORT_GATHER;
        if (port->mode != PORT_LINE)
            port->reg = p->registers++;
    }
    look_far(p);
    p->work_ns = (double)p->numel * (0.15 * p->ports + 0.25 * p->steps);
}

/* --- moving rows in and out of registers ---------------------------------------------------------------------- */

/* n times one element: loops that the compiler turns into wide stores. */
static void row_repeat(char *to, const char *from, int64_t n, int size)
{
    if (size == 1) {
        memset(to, *from, (size_t)n);
    } else if (size == 2) {
        uint16_t v = *(const uint16_t *)from;
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = v;
    } else if (size == 4) {
        uint32_t v = *(const uint32_t *)from;
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)to)[i] = v;
    } else {
        uint64_t v = *(const uint64_t *)from;
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)to)[i] = v;
    }
}

static void row_in(char *to, const char *from, int64_t n, int64_t stride, int size)
{
    if (stride == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    if (stride == 0) {
        row_repeat(to, from, n, size);
        return;
    }
    switch (size) {
    case 1:
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * stride];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = *(const uint16_t *)(from + i * stride);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)to)[i] = *(const uint32_t *)(from + i * stride);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)to)[i] = *(const uint64_t *)(from + i * stride);
    }
}

static void row_out(char *to, const char *from, int64_t n, int64_t stride, int size)
{
    if (stride == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1:
        for (int64_t i = 0; i < n; i++)
            to[i * stride] = from[i];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++)
            *(uint16_t *)(to + i * stride) = ((const uint16_t *)from)[i];
        break;
    case 4:
        for (int64_t i = 0; i < n; i++)
            *(uint32_t *)(to + i * stride) = ((const uint32_t *)from)[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            *(uint64_t *)(to + i * stride) = ((const uint64_t *)from)[i];
    }
}

/* Where a tile begins: its first row, as an index per outer dimension, and its first column. */
typedef struct tile {
    int64_t index[BK_MAX_NDIM];
    int64_t rows, columns, column, start; /* start: elements before it in iteration order */
} tile;

static void tile_at(tile *t, const ew_program *p, int64_t number)
{
    int64_t row, rows = p->numel / p->inner;
    if (p->rows_per_tile > 1) {
        row = number * p->rows_per_tile;
        t->column = 0;
        t->rows = rows - row < p->rows_per_tile ? rows - row : p->rows_per_tile;
        t->columns = p->inner;
    } else {
        int64_t per_row = (p->inner + p->columns_per_tile - 1) / p->columns_per_tile;
        row = number / per_row;
        t->column = number % per_row * p->columns_per_tile;
        t->rows = 1;
        t->columns = p->inner - t->column < p->columns_per_tile ? p->inner - t->column : p->columns_per_tile;
    }
    t->start = row * p->inner + t->column;
    for (int d = p->ndim - 2; d >= 0; d--) {
        t->index[d] = row % p->sizes[d];
        row /= p->sizes[d];
    }
}

/* From one tile to the next. Within a row it is a matter of columns; divisions are left to the beginnings of rows. */
static void tile_next(const ew_program *p, tile *t, int64_t number)
{
    int64_t left = p->inner - t->column - t->columns;
    if (t->rows > 1 || left <= 0) {
        tile_at(t, p, number);
        return;
    }
    t->column += t->columns;
    t->start += t->columns;
    t->columns = left < p->columns_per_tile ? left : p->columns_per_tile;
}

static int64_t row_offset(const ew_program *p, const ew_port *port, const tile *t)
{
    int64_t at = t->column * port->strides[p->ndim - 1];
    for (int d = 0; d < p->ndim - 1; d++)
        at += t->index[d] * port->strides[d];
    return at;
}

/* Rows that follow each other at the same distance. What is read again and again is read once, and doubled; rows that
 * lie one behind the other are one. */
static void move_run(const ew_port *port, int64_t rows, int64_t columns, int64_t distance, int64_t stride, char *memory,
                     char *reg)
{
    const int64_t bytes = columns * port->size;
    if (port->writes) {
        for (int64_t r = 0; r < rows; r++)
            row_out(memory + r * distance, reg + r * bytes, columns, stride, port->size);
    } else if (distance == 0) {
        row_in(reg, memory, columns, stride, port->size);
        for (int64_t done = bytes, more; done < rows * bytes; done += more) {
            more = done < rows * bytes - done ? done : rows * bytes - done;
            memcpy(reg + done, reg, (size_t)more);
        }
    } else if (distance == bytes && stride == port->size) {
        memcpy(reg, memory, (size_t)(rows * bytes));
    } else {
        for (int64_t r = 0; r < rows; r++)
            row_in(reg + r * bytes, memory + r * distance, columns, stride, port->size);
    }
}

/* Moves all rows of the tile between the port's memory and its register. */
static void move_rows(const ew_program *p, const ew_port *port, const tile *t, char *memory, char *reg)
{
    const int last = p->ndim - 2;
    int64_t at = row_offset(p, port, t), index[BK_MAX_NDIM];
    if (last < 0) {
        move_run(port, 1, t->columns, 0, port->strides[0], memory + at, reg);
        return;
    }
    for (int d = 0; d <= last; d++)
        index[d] = t->index[d];
    for (int64_t left = t->rows, run; left > 0; left -= run) {
        run = p->sizes[last] - index[last] < left ? p->sizes[last] - index[last] : left;
        move_run(port, run, t->columns, port->strides[last], port->strides[last + 1], memory + at, reg);
        reg += run * t->columns * port->size;
        at += run * port->strides[last];
        index[last] += run;
        for (int d = last; d > 0 && index[d] == p->sizes[d]; d--) {
            at += port->strides[d - 1] - port->strides[d] * p->sizes[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

/* --- running --------------------------------------------------------------------------------------------------- */

typedef struct run {
    const ew_program *program;
    char *const *bases;
} run;

/* A single row with unit stride needs no register even where the whole is no line. */
static bool shows_memory(const ew_program *p, const ew_port *port, const tile *t)
{
    return t->rows == 1 && port->strides[p->ndim - 1] == port->size;
}

static void show_ports(const ew_program *p, char *const *bases, const tile *t, char *registers, char **address)
{
    for (int i = 0; i < p->ports; i++) {
        const ew_port *port = &p->port[i];
        if (port->mode == PORT_LINE) {
            address[i] = bases[i] + t->start * port->size;
        } else if (port->mode == PORT_GATHER) {
            char *reg = registers + port->reg * p->register_bytes;
            if (shows_memory(p, port, t) || (emit_runs(p) && port->repeated)) {
                address[i] = bases[i] + row_offset(p, port, t);
            } else {
                address[i] = reg;
                if (!port->writes)
                    move_rows(p, port, t, bases[i], reg);
            }
        }
    }
}

static void store_ports(const ew_program *p, char *const *bases, const tile *t, char **address)
{
    for (int i = 0; i < p->ports; i++) {
        const ew_port *port = &p->port[i];
        if (port->writes && port->mode == PORT_GATHER && !shows_memory(p, port, t))
            move_rows(p, port, t, bases[i], address[i]);
    }
}

/* Memory far away arrives while the steps compute: between two steps some lines of the next tile are asked for, never
 * so many that they queue up. The hardware's prefetcher starts anew with every page, and a page is two tiles. Saves 5%.
 */
typedef struct outlook {
    int port;
    int64_t at;
} outlook;

static void look_ahead(const ew_program *p, char *const *address, int64_t n, outlook *o)
{
    for (int lines = p->lines_per_step; lines > 0 && o->port < p->ports; o->port++, o->at = 0) {
        const ew_port *port = &p->port[o->port];
        if (port->mode != PORT_LINE)
            continue;
        int64_t bytes = n * port->size;
        const char *next = address[o->port] + bytes;
        for (; o->at < bytes && lines > 0; o->at += LINE_BYTES, lines--)
            __builtin_prefetch(next + o->at, 0, 3);
        if (o->at < bytes)
            return;
    }
}

static void interpret(const ew_program *p, int first, int end, int64_t n, char *const *address, outlook *ahead)
{
    for (const ew_step *s = p->step + first, *last = p->step + end; s < last; s++) {
        if (ahead)
            look_ahead(p, address, n, ahead);
        s->run(n, address[s->to], address[s->x], address[s->y], address[s->z]);
    }
}

static void run_steps(const ew_program *p, int64_t n, char *const *address, bool ahead)
{
    outlook start = { 0, 0 }, *o = ahead ? &start : NULL;
    if (!emit_runs(p)) {
        interpret(p, 0, p->steps, n, address, o);
        return;
    }
    for (const emitted_part *q = p->emitted->part, *last = q + p->emitted->part_count; q < last; q++) {
        if (!q->run) {
            interpret(p, q->first, q->end, n, address, o);
            continue;
        }
        for (int i = q->first; o && i < q->end; i++)
            look_ahead(p, address, n, o);
        q->run(n, address);
    }
}

/* What a thread needs to run tiles of `elements` in all: the registers, and where every port and register is to be
 * found. */
static void open_bench(const ew_program *p, int64_t elements, char *const *bases, char *registers, char **address)
{
    int64_t rows = 1 + (elements - 1) / p->inner;
    for (int i = 0; i < p->registers; i++)
        address[p->ports + i] = registers + i * p->register_bytes;
    for (int i = 0; i < EMIT_AHEAD; i++)
        address[p->ports + p->registers + i] = registers;
    tile all;
    all.rows = rows < p->rows_per_tile ? rows : p->rows_per_tile;
    all.columns = p->columns_per_tile;
    all.column = 0;
    for (int d = 0; d < p->ndim - 1; d++)
        all.index[d] = 0;
    for (int i = 0; i < p->ports; i++) {
        const ew_port *port = &p->port[i];
        if (port->mode != PORT_FIXED)
            continue;
        address[i] = registers + port->reg * p->register_bytes;
        if (emit_runs(p) && port->repeated)
            address[i] = bases[i];
        else
            move_rows(p, port, &all, bases[i], address[i]);
    }
}

static void run_tile(const ew_program *p, char *const *bases, const tile *t, char *registers, char **address,
                     bool ahead)
{
    show_ports(p, bases, t, registers, address);
    run_steps(p, t->rows * t->columns, address, ahead);
    store_ports(p, bases, t, address);
}

/* Where element `at` is. */
static void tile_place(const ew_program *p, int64_t at, tile *t)
{
    int64_t row = 0;
    t->start = t->column = at;
    if (at >= p->inner) {
        row = at / p->inner;
        t->column = at % p->inner;
    }
    for (int d = p->ndim - 2; d >= 0; d--) {
        t->index[d] = row < p->sizes[d] ? row : row % p->sizes[d];
        row = row < p->sizes[d] ? 0 : row / p->sizes[d];
    }
}

/* The largest tile that begins with element `at` and ends before element `end`. */
static void tile_from(const ew_program *p, int64_t at, int64_t end, tile *t)
{
    const int64_t left = end - at;
    tile_place(p, at, t);
    t->rows = 1;
    if (t->column == 0 && p->rows_per_tile > 1 && left >= p->inner) {
        t->rows = left / p->inner < p->rows_per_tile ? left / p->inner : p->rows_per_tile;
        t->columns = p->inner;
    } else {
        t->columns = p->inner - t->column < left ? p->inner - t->column : left;
        t->columns = t->columns < p->columns_per_tile ? t->columns : p->columns_per_tile;
    }
}

static int written_port(const ew_program *p)
{
    int i = 0;
    while (i < p->ports - 1 && !p->port[i].writes)
        i++;
    return i;
}

static void find_row(const ew_program *p, char *const *bases, const tile *t, char **address)
{
    for (int i = 0; i < p->ports; i++)
        address[i] = bases[i] + row_offset(p, &p->port[i], t);
}

/* n elements further on: mostly from one row to the next in the same dimension. */
static void advance(const ew_program *p, char *const *bases, int64_t n, tile *t, char **address)
{
    const int outer = p->ndim - 2;
    if (n == p->inner && outer >= 0 && t->index[outer] + 1 < p->sizes[outer]) {
        t->index[outer]++;
        for (int i = 0; i < p->ports; i++)
            address[i] += p->port[i].strides[outer];
        return;
    }
    t->column += n;
    if (t->column == p->inner) {
        t->column = 0;
        for (int d = outer; d >= 0 && ++t->index[d] == p->sizes[d]; d--)
            t->index[d] = 0;
    }
    find_row(p, bases, t, address);
}

/* Elements [begin, end) by code alone, row by row where they lie. One function takes a row at a time, several as much
 * as the registers between them hold. */
static void run_straight(const ew_program *p, char *const *bases, int64_t begin, int64_t end, const ew_ahead *ahead)
{
    const emitted *e = p->emitted;
    const int64_t held = e->part_count > 1 ? p->register_bytes : 0;
    const int64_t most = held ? p->rows_per_tile * p->columns_per_tile : p->inner;
    char registers[p->registers * held + 64] __attribute__((aligned(64)));
    char *address[p->ports + p->registers + EMIT_AHEAD];
    for (int i = 0; i < p->registers; i++)
        address[p->ports + i] = registers + i * held;
    char **next = address + p->ports + p->registers;
    const int written = written_port(p);
    tile t;
    tile_place(p, begin, &t);
    find_row(p, bases, &t, address);
    for (int64_t n, done = 0; begin < end; begin += n, done += n) {
        n = p->inner - t.column < end - begin ? p->inner - t.column : end - begin;
        n = n < most ? n : most;
        for (int i = 0; i < EMIT_AHEAD; i++)
            next[i] = ahead ? ahead->at[i] + done * ahead->step[i] : address[written];
        for (const emitted_part *q = e->part, *last = q + e->part_count; q < last; q++)
            q->run(n, address);
        if (begin + n < end)
            advance(p, bases, n, &t, address);
    }
}

static bool is_straight(const ew_program *p) { return p->straight && emit_runs(p); }

static void run_tiles(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    const ew_program *p = r->program;
    if (is_straight(p)) {
        int64_t rows = p->numel / p->inner, per_row = (p->inner + p->columns_per_tile - 1) / p->columns_per_tile;
        int64_t tiles = p->rows_per_tile > 1 ? (rows + p->rows_per_tile - 1) / p->rows_per_tile : rows * per_row;
        tile first, next;
        tile_at(&first, p, begin);
        if (end < tiles)
            tile_at(&next, p, end);
        run_straight(p, r->bases, first.start, end < tiles ? next.start : p->numel, NULL);
        return;
    }
    char registers[p->registers * p->register_bytes + 64] __attribute__((aligned(64)));
    char *address[p->ports + p->registers + EMIT_AHEAD];
    open_bench(p, p->numel, r->bases, registers, address);
    tile t;
    tile_at(&t, p, begin);
    for (int64_t number = begin; number < end; number++) {
        if (number > begin)
            tile_next(p, &t, number);
        run_tile(p, r->bases, &t, registers, address, p->lines_per_step && number + 1 < end);
    }
}

void program_run_range(const ew_program *p, char *const *bases, int64_t begin, int64_t end)
{
    program_run_ahead(p, bases, begin, end, NULL);
}

void program_run_ahead(const ew_program *p, char *const *bases, int64_t begin, int64_t end, const ew_ahead *ahead)
{
    if (is_straight(p)) {
        run_straight(p, bases, begin, end, ahead);
        return;
    }
    char registers[p->registers * p->register_bytes + 64] __attribute__((aligned(64)));
    char *address[p->ports + p->registers + EMIT_AHEAD];
    open_bench(p, end - begin, bases, registers, address);
    for (int64_t n; begin < end; begin += n) {
        tile t;
        tile_from(p, begin, end, &t);
        n = t.rows * t.columns;
        for (int i = 0; i < p->ports; i++) { /* a tile may begin within a row, whole rows of which are at hand */
            const ew_port *port = &p->port[i];
            if (port->mode == PORT_FIXED && port->strides[p->ndim - 1])
                address[i] = registers + port->reg * p->register_bytes + t.column * port->size;
        }
        run_tile(p, bases, &t, registers, address, false);
    }
}

void program_run(const ew_program *p, char *const *bases)
{
    if (!p->numel)
        return;
    int64_t rows = p->numel / p->inner;
    int64_t tiles = p->rows_per_tile > 1 ? (rows + p->rows_per_tile - 1) / p->rows_per_tile
                                         : rows * ((p->inner + p->columns_per_tile - 1) / p->columns_per_tile);
    run r = { p, bases };
    threads_for(tiles, 1, p->work_ns, run_tiles, &r);
}
