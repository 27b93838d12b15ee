// Rows of token shards gathered by number, with their lengths and where documents begin in them.
//
// loader.py says what each array means, and gathers the same in numpy.
#include <stdint.h>
#include <string.h>

// One mapped shard; shards are in the order of their first samples. `lengths` is null for a stream.
typedef struct {
    const uint8_t *tokens;
    const int64_t *starts;
    const uint32_t *lengths;
    int64_t documents, first, used;
} Shard;

// The last shard that does not begin behind this sample.
static const Shard *owner(const Shard *shards, int64_t count, int64_t sample) {
    while (count > 1) {
        int64_t half = count / 2;
        if (shards[half].first <= sample) { shards += half; count -= half; }
        else count = half;
    }
    return shards;
}

// How many of these ascending numbers are less than `bound`.
static int64_t below(const int64_t *numbers, int64_t count, int64_t bound) {
    const int64_t *begin = numbers;
    while (count > 0) {
        int64_t half = count / 2;
        if (numbers[half] < bound) { numbers += half + 1; count -= half + 1; }
        else count = half;
    }
    return numbers - begin;
}

// tokens[rows][width], lengths[rows], and the boundaries in ascending order, of which there is room for rows · width;
// how many those are. `stride`: from the beginning of a row to that of the next; `bytes`: of a token, 2 or 4.
int64_t gather(const Shard *shards, int64_t count, int64_t bytes, int64_t width, int64_t stride,
               const int64_t *samples, int64_t rows, int32_t *tokens, int64_t *lengths, int64_t *boundaries) {
    int64_t found = 0;
    for (int64_t row = 0; row < rows; row++, tokens += width) {
        const Shard *shard = owner(shards, count, samples[row]);
        const int64_t local = samples[row] - shard->first, begin = local * stride;
        const uint8_t *from = shard->tokens + begin * bytes;
        if (bytes == 2) {
            const uint16_t *narrow = (const uint16_t *)(const void *)from;
            for (int64_t i = 0; i < width; i++) tokens[i] = narrow[i];
        } else {
            memcpy(tokens, from, (size_t)width * sizeof *tokens);
        }
        int64_t present = shard->lengths ? shard->lengths[local] : shard->used - begin;
        if (present > width) present = width;
        lengths[row] = present;
        // A document that begins on a row's first token is no boundary.
        for (int64_t k = below(shard->starts, shard->documents, begin + 1);
             k < shard->documents && shard->starts[k] < begin + present; k++)
            boundaries[found++] = row * width + shard->starts[k] - begin;
    }
    return found;
}
