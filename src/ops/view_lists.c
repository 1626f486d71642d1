/* view_lists.c: a table of numbers, one list behind the other. */
#include "ops/view_lists.h"

#include <string.h>

#include "core/memory.h"

enum { ROOM = 1 << 15, BUCKETS = 256 };

typedef struct kept_list {
    int first, count, next; /* next: of the same bucket, from 1 */
} kept_list;

static int64_t *sizes_kept;
static uint16_t *list_of; /* the list of each */
static kept_list *lists;
static int used, list_count, heads[BUCKETS];

static bool make_room(void)
{
    if (sizes_kept)
        return true;
    sizes_kept = mem_try(ROOM * sizeof *sizes_kept);
    list_of = mem_try(ROOM * sizeof *list_of);
    lists = mem_try(ROOM * sizeof *lists);
    if (sizes_kept && list_of && lists)
        return true;
    mem_free(sizes_kept);
    mem_free(list_of);
    mem_free(lists);
    sizes_kept = NULL;
    return false;
}

static int bucket_of(const int64_t *sizes, int count)
{
    uint64_t h = (uint64_t)count;
    for (int k = 0; k < count; k++)
        h = (h ^ (uint64_t)sizes[k]) * 0x9E3779B97F4A7C15ull;
    return (int)(h >> 56);
}

int view_list_keep(const int64_t *sizes, int count)
{
    if (!count || count > ROOM || !make_room())
        return 0;
    const size_t bytes = (size_t)count * sizeof *sizes;
    int bucket = bucket_of(sizes, count);
    for (int i = heads[bucket]; i; i = lists[i - 1].next)
        if (lists[i - 1].count == count && !memcmp(sizes_kept + lists[i - 1].first, sizes, bytes))
            return VIEW_LISTS_FIRST + lists[i - 1].first;
    if (used + count > ROOM)
        return 0;
    memcpy(sizes_kept + used, sizes, bytes);
    for (int k = 0; k < count; k++)
        list_of[used + k] = (uint16_t)list_count;
    lists[list_count++] = (kept_list){ used, count, heads[bucket] };
    heads[bucket] = list_count;
    used += count;
    return VIEW_LISTS_FIRST + used - count;
}

view_list view_list_at(uint32_t part)
{
    if (part < VIEW_LISTS_FIRST || part - VIEW_LISTS_FIRST >= (uint32_t)used)
        return (view_list){ .number = (int)part };
    const kept_list *l = &lists[list_of[part - VIEW_LISTS_FIRST]];
    return (view_list){ l->count, (int)part - VIEW_LISTS_FIRST - l->first, sizes_kept + l->first };
}
