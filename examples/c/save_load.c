/* save_load.c: the parameters of a small model to a checkpoint that PyTorch reads, and back. */
#include <brisk.h>

#include <stdio.h>

static int save(const char *path)
{
    bk_tensors *model = bk_tensors_new();
    bk_manual_seed(0);
    bk_scope_push();
    bk_tensors_set(model, "weight", bk_randn(2, (int64_t[]){ 2, 3 }, BK_FLOAT32, NULL));
    bk_tensors_set(model, "bias", bk_zeros(1, (int64_t[]){ 2 }, BK_FLOAT32));
    int status = bk_save(path, model); /* the old file stays until the new one is complete */
    bk_scope_pop();
    bk_tensors_free(model);
    return status;
}

static int use(const char *path)
{
    bk_tensors *model = bk_load(path);
    bk_scope_push();
    bk_tensor *x = bk_ones(2, (int64_t[]){ 1, 3 }, BK_FLOAT32);
    bk_tensor *y = bk_linear(x, bk_tensors_get(model, "weight"), bk_tensors_get(model, "bias"));
    for (int64_t i = 0; i < bk_tensors_count(model); i++)
        printf("%s has %lld elements\n", bk_tensors_name(model, i), (long long)bk_numel(bk_tensors_at(model, i)));
    char *text = bk_to_string(y);
    if (text)
        printf("%s\n", text);
    int status = text ? 0 : -1;
    bk_free(text);
    bk_scope_pop();
    bk_tensors_free(model);
    return status;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "model.pt";
    if (save(path) == 0 && use(path) == 0)
        return 0;
    fprintf(stderr, "%s\n", bk_error());
    return 1;
}
