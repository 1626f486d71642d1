/* crc32.c: the checksum of zip archives (polynomial 0xEDB88320), eight bytes at a step: 2 GB/s, where a byte at a step
 * gives 0.4 and would take longer than the disk. */
#include <pthread.h>
#include <string.h>

#include "files/zip.h"

static uint32_t table[8][256]; /* table[k][b]: what byte b does to the checksum k bytes later */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count)
{
    pthread_once(&once, fill_table);
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; count >= 8; p += 8, count -= 8) {
        uint32_t low = crc ^ (uint32_t)load_le(p, 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; count; p++, count--)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return ~crc;
}
