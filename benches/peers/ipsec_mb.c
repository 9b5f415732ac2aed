/*
 * Intel's multi-buffer library by its direct interface, for benches/benches/aead.rs,
 * which compiles this where the library's header is and talks to it by pipe:
 *
 *   < gcm128 seal 64 12 4096            cipher, operation, octets, additional data, packets
 *   > 4096 101234.0 232838              packets, nanoseconds, clocks of the TSC
 *
 * A round seals, or opens, that many packets in 128 buffers in batches of 64, every
 * packet with a nonce of its own, in place, the ICV behind the text. Nonces of a batch
 * are ready before its first packet. Opening compares the ICV; what is opened was
 * sealed before, which does not count.
 */
#include <intel-ipsec-mb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

enum { BUFFERS = 128, BATCH = 64, STRIDE = 2048 + 64, FRONT = 256, ICV = 16 };

static IMB_MGR *mgr;
static struct gcm_key_data key128, key256;
static uint8_t nonces[BATCH][16];
static uint64_t number;
static uint8_t *memory;

static uint8_t *text(unsigned i) { return memory + (size_t)(i % BUFFERS) * STRIDE + FRONT; }

static void fresh_nonces(uint64_t from)
{
    for (unsigned i = 0; i < BATCH; i++) {
        uint64_t n = __builtin_bswap64(from + i);
        memcpy(nonces[i] + 4, &n, 8);
    }
}

static void seal(int wide, unsigned first, uint64_t len, uint64_t ad)
{
    struct gcm_context_data context;
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t *t = text(first + i);
        if (wide)
            IMB_AES256_GCM_ENC(mgr, &key256, &context, t, t, len, nonces[i], t - ad, ad, t + len, ICV);
        else
            IMB_AES128_GCM_ENC(mgr, &key128, &context, t, t, len, nonces[i], t - ad, ad, t + len, ICV);
    }
}

static unsigned open_all(int wide, unsigned first, uint64_t len, uint64_t ad)
{
    struct gcm_context_data context;
    unsigned good = 0;
    uint8_t icv[ICV];
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t *t = text(first + i);
        if (wide)
            IMB_AES256_GCM_DEC(mgr, &key256, &context, t, t, len, nonces[i], t - ad, ad, icv, ICV);
        else
            IMB_AES128_GCM_DEC(mgr, &key128, &context, t, t, len, nonces[i], t - ad, ad, icv, ICV);
        uint64_t given[2], made[2];
        memcpy(given, t + len, ICV);
        memcpy(made, icv, ICV);
        good += ((given[0] ^ made[0]) | (given[1] ^ made[1])) == 0;
    }
    return good;
}

int main(void)
{
    uint8_t key[32];
    char cipher[16], operation[16];
    unsigned long len, ad, packets;

    mgr = alloc_mb_mgr(0);
    if (mgr == NULL || posix_memalign((void **)&memory, 64, (size_t)BUFFERS * STRIDE) != 0)
        return 1;
    memset(memory, 0, (size_t)BUFFERS * STRIDE);
    init_mb_mgr_auto(mgr, NULL);
    for (unsigned i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    IMB_AES128_GCM_PRE(mgr, key, &key128);
    IMB_AES256_GCM_PRE(mgr, key, &key256);
    printf("%s\n", imb_get_version_str());
    fflush(stdout);

    while (scanf("%15s %15s %lu %lu %lu", cipher, operation, &len, &ad, &packets) == 5) {
        int wide = strcmp(cipher, "gcm256") == 0, opens = strcmp(operation, "open") == 0;
        unsigned long done = 0, good = 0;
        uint64_t clocks = 0;
        struct timespec from, to;
        if (len + ICV + FRONT > STRIDE || ad > FRONT)
            return 1;
        clock_gettime(CLOCK_MONOTONIC, &from);
        uint64_t begin = __rdtsc();
        for (; done < packets; done += BATCH, number += BATCH) {
            if (opens) {
                fresh_nonces(number);
                seal(wide, (unsigned)done, len, ad);
            }
            uint64_t start = __rdtsc();
            fresh_nonces(number);
            if (opens)
                good += open_all(wide, (unsigned)done, len, ad);
            else
                seal(wide, (unsigned)done, len, ad);
            clocks += __rdtsc() - start;
        }
        uint64_t all = __rdtsc() - begin;
        clock_gettime(CLOCK_MONOTONIC, &to);
        if (opens && good != done)
            return 1;
        double nanos = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
        printf("%lu %.1f %llu\n", done, nanos * (double)clocks / (double)all, (unsigned long long)clocks);
        fflush(stdout);
    }
    return 0;
}
