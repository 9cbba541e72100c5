/* The HPIO access patterns as others carry them out: what the collective engine is measured against.
 *
 *   mpirun -n 4 mpiio_hpio ENGINE FILE PATTERNS REGION_BYTES REGION_COUNTS SPACE_BYTES REPETITIONS [KEY=VALUE ...]
 *
 * ENGINE: mpiio      MPI_File_write_all and MPI_File_read_all of this site;
 *         alltoallv  by hand: each rank answers for an equal share of the file; MPI_Alltoallv, one pwrite (holes are read before it);
 *         limit      rank 0 moves the touched span by one plain pwrite or pread, and nobody else does anything.
 *
 * Lists have commas; bytes and counts of regions belong together. A pattern is memory-file: c-c, nc-c, c-nc or nc-nc, as HPIO defines
 * them (Ching et al., IPDPS 2006): memory nc is COUNT regions of REGION bytes, REGION + SPACE apart; file nc gives the ranks' regions
 * round robin, REGION + SPACE apart; c is one run. Each repetition makes a new file of the full length, and times the write between
 * two barriers, then the read; a repetition counts with its slowest rank. Every byte is compared, holes included. KEY=VALUE are MPI
 * hints. One line a repetition and operation:
 *
 *   operation pattern ranks region_bytes region_count region_space_bytes bytes seconds
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

static void check(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s: %s\n", rank, call, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The byte that belongs at an offset of the file; never 0, which is what a hole reads as. */
static unsigned char value(long long offset)
{
    unsigned long long mixed = (unsigned long long)offset * 0x9E3779B97F4A7C15ull;
    return (unsigned char)((mixed >> 57) + 1);
}

struct pattern {
    int memory_gaps, file_gaps;
    long long region, count, space;
};

static long long file_offset(const struct pattern *p, int owner, long long region)
{
    if (p->file_gaps)
        return (p->region + p->space) * (region * ranks + owner);
    return p->region * (p->count * owner + region);
}

static long long file_bytes(const struct pattern *p)
{
    if (p->file_gaps)
        return (p->region + p->space) * p->count * ranks - p->space;
    return p->region * p->count * ranks;
}

static long long memory_stride(const struct pattern *p)
{
    return p->memory_gaps ? p->region + p->space : p->region;
}

static MPI_Datatype blocks(const struct pattern *p, long long stride)
{
    MPI_Datatype region, type;
    MPI_Type_contiguous((int)p->region, MPI_BYTE, &region);
    MPI_Type_create_hvector((int)p->count, 1, stride, region, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&region);
    return type;
}

/* The whole file, holes included, against what must be in it. */
static long long differences(const struct pattern *p, const char *path)
{
    long long bytes = file_bytes(p), wrong = 0, at = 0, pitch = p->region + p->space;
    unsigned char *found = malloc((size_t)bytes + 1);
    FILE *file = fopen(path, "rb");
    if (!file || fread(found, 1, (size_t)bytes + 1, file) != (size_t)bytes)
        return -1;
    fclose(file);
    for (; at < bytes; at++) {
        int hole = p->file_gaps && at % pitch >= p->region;
        wrong += found[at] != (hole ? 0 : value(at));
    }
    free(found);
    return wrong;
}

static double slowest(double seconds)
{
    double all;
    MPI_Reduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return all;
}

/* Moves all of it, however many calls that takes. */
static void whole(int file, int writes, char *data, long long bytes, long long offset)
{
    while (bytes > 0) {
        ssize_t moved = writes ? pwrite(file, data, (size_t)bytes, offset) : pread(file, data, (size_t)bytes, offset);
        if (moved <= 0) {
            perror(writes ? "pwrite" : "pread");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        data += moved, offset += moved, bytes -= moved;
    }
}

static int opened(const char *path)
{
    int file = open(path, O_RDWR);
    if (file < 0) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return file;
}

/* First of a rank's own regions in the share of `domain`: one share is COUNT regions of the file. */
static long long first_region(const struct pattern *p, int owner, int domain)
{
    long long before = p->count * domain - owner;
    return before <= 0 ? 0 : (before + ranks - 1) / ranks;
}

/* Buffers of the exchange by hand, made before the time is taken. */
struct by_hand {
    char *packed, *exchanged, *share;
    int *own_bytes, *own_at, *share_bytes, *share_at;
};

static struct by_hand prepare(const struct pattern *p)
{
    struct by_hand h;
    size_t payload = (size_t)(p->region * p->count);
    int other;
    h.packed = malloc(payload);
    h.exchanged = malloc(payload);
    h.share = malloc((size_t)((p->region + p->space) * p->count));
    h.own_bytes = calloc((size_t)ranks * 4, sizeof(int));
    h.own_at = h.own_bytes + ranks;
    h.share_bytes = h.own_at + ranks;
    h.share_at = h.share_bytes + ranks;
    for (other = 0; other < ranks; other++) {
        h.own_bytes[other] = (int)(p->region * (first_region(p, rank, other + 1) - first_region(p, rank, other)));
        h.share_bytes[other] = (int)(p->region * (first_region(p, other, rank + 1) - first_region(p, other, rank)));
        h.own_at[other] = other ? h.own_at[other - 1] + h.own_bytes[other - 1] : 0;
        h.share_at[other] = other ? h.share_at[other - 1] + h.share_bytes[other - 1] : 0;
    }
    return h;
}

static void release(struct by_hand *h)
{
    free(h->packed);
    free(h->exchanged);
    free(h->share);
    free(h->own_bytes);
}

/* Between the caller's memory and `packed`, which holds the regions without gaps. */
static void pack(const struct pattern *p, char *memory, char *packed, int writes)
{
    long long stride = memory_stride(p), region;
    for (region = 0; region < p->count; region++) {
        char *theirs = memory + region * stride, *ours = packed + region * p->region;
        memcpy(writes ? ours : theirs, writes ? theirs : ours, (size_t)p->region);
    }
}

/* Between the pieces as they were exchanged and this rank's share of the file. */
static void place(const struct pattern *p, struct by_hand *h, int writes)
{
    long long pitch = p->region + p->space, region;
    int owner;
    for (owner = 0; owner < ranks; owner++) {
        char *piece = h->exchanged + h->share_at[owner];
        for (region = first_region(p, owner, rank); region < first_region(p, owner, rank + 1); region++) {
            char *there = h->share + (region * ranks + owner - p->count * rank) * pitch;
            memcpy(writes ? there : piece, writes ? piece : there, (size_t)p->region);
            piece += p->region;
        }
    }
}

static void by_hand(const struct pattern *p, int file, struct by_hand *h, char *memory, int writes)
{
    long long payload = p->region * p->count, pitch = p->region + p->space, start = pitch * p->count * rank;
    long long span = pitch * p->count - (rank == ranks - 1 ? p->space : 0);
    char *packed = p->memory_gaps ? h->packed : memory;
    if (writes && p->memory_gaps)
        pack(p, memory, packed, 1);
    if (!p->file_gaps) {
        whole(file, writes, packed, payload, payload * rank);
    } else if (writes) {
        MPI_Alltoallv(packed, h->own_bytes, h->own_at, MPI_BYTE, h->exchanged, h->share_bytes, h->share_at, MPI_BYTE,
                      MPI_COMM_WORLD);
        if (p->space)
            whole(file, 0, h->share, span, start);
        place(p, h, 1);
        whole(file, 1, h->share, span, start);
    } else {
        whole(file, 0, h->share, span, start);
        place(p, h, 0);
        MPI_Alltoallv(h->exchanged, h->share_bytes, h->share_at, MPI_BYTE, packed, h->own_bytes, h->own_at, MPI_BYTE,
                      MPI_COMM_WORLD);
    }
    if (!writes && p->memory_gaps)
        pack(p, memory, packed, 0);
}

static void new_file(const struct pattern *p, const char *path)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        int file;
        remove(path);
        file = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
        if (file < 0 || ftruncate(file, file_bytes(p)) != 0) {
            perror(path);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        close(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One access without MPI-IO; the slowest rank's seconds. */
static double plain(const struct pattern *p, const char *path, char *memory, struct by_hand *h, int limit, int writes)
{
    int file = opened(path);
    double begin;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (!limit)
        by_hand(p, file, h, memory, writes);
    else if (rank == 0)
        whole(file, writes, memory, file_bytes(p), 0);
    begin = slowest(MPI_Wtime() - begin);
    close(file);
    return begin;
}

/* One access through MPI-IO; the slowest rank's seconds. */
static double mpiio(const struct pattern *p, const char *path, MPI_Info info, char *memory, int writes)
{
    MPI_Datatype memory_type = p->memory_gaps ? blocks(p, memory_stride(p)) : MPI_BYTE;
    MPI_Datatype file_type = p->file_gaps ? blocks(p, (p->region + p->space) * ranks) : MPI_BYTE;
    int memory_count = p->memory_gaps ? 1 : (int)(p->region * p->count);
    MPI_File file;
    double begin;
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, info, &file), "MPI_File_open");
    check(MPI_File_set_view(file, file_offset(p, rank, 0), MPI_BYTE, file_type, "native", info), "MPI_File_set_view");
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (writes)
        check(MPI_File_write_all(file, memory, memory_count, memory_type, MPI_STATUS_IGNORE), "MPI_File_write_all");
    else
        check(MPI_File_read_all(file, memory, memory_count, memory_type, MPI_STATUS_IGNORE), "MPI_File_read_all");
    begin = slowest(MPI_Wtime() - begin);
    check(MPI_File_close(&file), "MPI_File_close");
    if (p->memory_gaps)
        MPI_Type_free(&memory_type);
    if (p->file_gaps)
        MPI_Type_free(&file_type);
    return begin;
}

/* What the memory of a rank must hold; the limit's rank 0 has the whole file. */
static void fill(const struct pattern *p, unsigned char *data, int limit)
{
    long long at, region, stride = memory_stride(p), pitch = p->region + p->space;
    if (limit) {
        for (at = 0; rank == 0 && at < file_bytes(p); at++)
            data[at] = p->file_gaps && at % pitch >= p->region ? 0 : value(at);
        return;
    }
    for (region = 0; region < p->count; region++)
        for (at = 0; at < p->region; at++)
            data[region * stride + at] = value(file_offset(p, rank, region) + at);
}

static void measure(const struct pattern *p, const char *name, const char *engine, const char *path, int repetitions, MPI_Info info)
{
    int limit = strcmp(engine, "limit") == 0, with_mpiio = strcmp(engine, "mpiio") == 0, repetition;
    long long bytes = p->region * p->count * ranks;
    size_t memory_bytes = (size_t)(limit ? file_bytes(p) : memory_stride(p) * p->count);
    char *data = calloc(memory_bytes, 1), *back = malloc(memory_bytes);
    struct by_hand h = prepare(p);
    fill(p, (unsigned char *)data, limit);
    for (repetition = 0; repetition < repetitions; repetition++) {
        double write_seconds, read_seconds;
        new_file(p, path);
        write_seconds = with_mpiio ? mpiio(p, path, info, data, 1) : plain(p, path, data, &h, limit, 1);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            long long wrong = differences(p, path);
            if (wrong != 0) {
                fprintf(stderr, "%lld bytes of the file are wrong\n", wrong);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        memset(back, 0, memory_bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        read_seconds = with_mpiio ? mpiio(p, path, info, back, 0) : plain(p, path, back, &h, limit, 0);
        if ((!limit || rank == 0) && memcmp(data, back, memory_bytes) != 0) {
            fprintf(stderr, "rank %d read other bytes than it wrote\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (rank == 0) {
            printf("write %s %d %lld %lld %lld %lld %.7f\n", name, ranks, p->region, p->count, p->space, bytes, write_seconds);
            printf("read %s %d %lld %lld %lld %lld %.7f\n", name, ranks, p->region, p->count, p->space, bytes, read_seconds);
            fflush(stdout);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        remove(path);
    release(&h);
    free(data);
    free(back);
}

/* The next element of a list with commas; 0 at its end. */
static int next(const char **list, char *element, size_t size)
{
    size_t length = strcspn(*list, ",");
    if (length == 0 || length >= size)
        return 0;
    memcpy(element, *list, length);
    element[length] = 0;
    *list += length + ((*list)[length] == ',');
    return 1;
}

int main(int argc, char **argv)
{
    MPI_Info info;
    const char *patterns, *regions, *counts, *spaces;
    char name[16], region[24], count[24], space[24];
    int at;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 8) {
        if (rank == 0)
            fprintf(stderr, "usage: mpiio_hpio ENGINE FILE PATTERNS REGION_BYTES REGION_COUNTS SPACE_BYTES REPETITIONS [KEY=VALUE ...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Info_create(&info);
    for (at = 8; at < argc; at++) {
        char *equals = strchr(argv[at], '=');
        if (equals) {
            *equals = 0;
            MPI_Info_set(info, argv[at], equals + 1);
        }
    }
    for (patterns = argv[3]; next(&patterns, name, sizeof name);)
        for (spaces = argv[6]; next(&spaces, space, sizeof space);)
            for (regions = argv[4], counts = argv[5];
                 next(&regions, region, sizeof region) && next(&counts, count, sizeof count);) {
                const char *dash = strstr(name, "c-") + 1;
                struct pattern p = {strncmp(name, "nc-", 3) == 0, strcmp(dash, "-nc") == 0, atoll(region), atoll(count), atoll(space)};
                /* Without gaps anywhere the space means nothing. */
                if (strcmp(name, "c-c") == 0 && p.space && strchr(argv[6], ','))
                    continue;
                measure(&p, name, argv[1], argv[2], atoi(argv[7]), info);
            }
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
