"""Modules that programs import for what this machine does not have, or for an option that few runs use."""

import brisk
import pytest


def test_there_is_no_accelerator_and_programs_are_told_so():
    assert not brisk.accelerator.is_available()
    assert brisk.accelerator.device_count() == 0
    assert brisk.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="none is available"):
        brisk.accelerator.synchronize()


def test_onnx_can_be_imported_and_its_export_says_that_it_is_not_there():
    import brisk.onnx

    with pytest.raises(NotImplementedError, match="torch.onnx.export"):
        brisk.onnx.export(None)


@pytest.mark.parametrize(
    "line, named",
    [
        ("torch.fft.rfft(x)", "'fft': there are no complex tensors"),
        ("torch.sparse.mm(x, x)", "'mm': there are no sparse tensors"),
        ("torch.sparse_coo_tensor([[0]], [1.0])", "'sparse_coo_tensor': there are no sparse tensors"),
        ("x.to_sparse()", "'to_sparse': there are no sparse tensors"),
        ("x.coalesce()", "'coalesce': there are no sparse tensors"),
        ("torch.optim.Adm", "'Adm'; near it are: .*Adam"),
        ("torch.optim.lr_scheduler.Step", "'Step'; near it are: StepLR"),
        ("torch.nn.Linea", "'Linea'; near it are: Linear"),
        ("torch.nn.functional.soft_max", "near it are: .*softmax"),
        ("torch.nn.init.xavier_unifrom_", "near it are: xavier_uniform_"),
        ("torch.nn.utils.rnn.pad_sequences", "near it are: pad_sequence"),
        ("torch.linalg.sovle", "near it are: solve"),
        ("torch.utils.data.Dataloader", "near it are: .*DataLoader"),
        ("torch.distributions.Gausian", "'Gausian'"),
        ("torch.autograd.gradchek", "near it are: gradcheck"),
        ("torch.cuda.is_avaliable", "near it are: is_available"),
        ("torch.special.gamainc", "near it are: gammainc"),
        ("torch.jit.scrip", "near it are: script"),
        ("torch.nosuchthing", "'nosuchthing'"),
        ("torch.zeros(2, dtype=torch.complex64)", "complex64"),
    ],
)
def test_an_error_names_what_is_not_there_and_what_is_near(line, named):
    with pytest.raises((AttributeError, NotImplementedError), match=named):
        eval(line, {"torch": brisk, "x": brisk.ones(2, 2)})


def test_what_is_not_there_can_be_asked_for():
    assert not hasattr(brisk.ones(2), "to_sparse") and not hasattr(brisk, "fft")


def test_a_profile_measures_the_parts_that_a_program_names(tmp_path):
    import json

    from brisk.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        for _ in range(3):
            with record_function("outer"), record_function("inner"):
                brisk.ones(4).sum().item()
    rows = {row.key: row for row in found.key_averages()}
    assert rows["outer"].count == rows["inner"].count == 3
    assert rows["outer"].cpu_time_total >= rows["inner"].cpu_time_total > 0
    assert rows["outer"].self_cpu_time_total == pytest.approx(
        rows["outer"].cpu_time_total - rows["inner"].cpu_time_total
    )
    table = found.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    assert "inner" in table and "Self CPU time total" in table
    found.export_chrome_trace(tmp_path / "trace.json")
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 7


def test_a_schedule_says_which_steps_of_a_profile_count():
    from brisk import profiler

    traces = []
    schedule = profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profiler.profile(schedule=schedule, on_trace_ready=lambda p: traces.append(len(p.events()))) as found:
        for _ in range(10):
            with profiler.record_function("step"):
                pass
            found.step()
    assert traces == [3, 3]  # two steps each, and the whole


def test_outside_of_a_profile_a_named_part_only_runs():
    @brisk.autograd.profiler.record_function("part")
    def part(x):
        return x + 1

    assert part(1) == 2
