"""no_grad, enable_grad, set_grad_enabled and inference_mode: what is on inside, and afterwards."""

import threading

import brisk
import pytest

ON = brisk.is_grad_enabled


def test_with_puts_back_what_was():
    with brisk.no_grad():
        assert not ON()
        with brisk.enable_grad():
            assert ON()
        assert not ON()
    assert ON()


def test_one_object_may_be_entered_again_while_it_is_open():
    off = brisk.no_grad()

    def deeper(depth):
        with off:
            assert not ON()
            if depth:
                with brisk.enable_grad():
                    deeper(depth - 1)
                    assert ON()
            assert not ON()

    deeper(100)
    assert ON()


@pytest.mark.parametrize("mode", [lambda: brisk.no_grad, brisk.no_grad, lambda: brisk.set_grad_enabled(False)])
def test_a_decorated_function_runs_in_the_mode_and_keeps_its_name(mode):
    @mode()
    def add(x, *, y=1):
        """Adds."""
        assert not ON()
        return x + y

    assert add(2, y=3) == 5 and add.__name__ == "add" and add.__doc__ == "Adds."
    assert ON()


@pytest.mark.parametrize("mode", [brisk.no_grad(), brisk.inference_mode()])
def test_an_exception_puts_back_what_was_and_goes_on(mode):
    @mode
    def fails():
        raise KeyError("here")

    with pytest.raises(KeyError), mode:
        raise KeyError("there")
    with pytest.raises(KeyError):
        fails()
    assert ON()


def test_a_generator_is_in_the_mode_while_it_runs():
    @brisk.no_grad()
    def steps():
        yield ON()
        yield ON()

    assert [(inside, ON()) for inside in steps()] == [(False, True)] * 2


def test_set_grad_enabled_acts_at_once():
    brisk.set_grad_enabled(False)
    assert not ON()
    brisk.set_grad_enabled(mode=True)
    assert ON()
    with brisk.set_grad_enabled(False):
        assert not ON()
    assert ON()


def test_a_class_of_the_users_may_add_to_a_mode():
    class counted(brisk.no_grad):
        entered = 0

        def __enter__(self):
            counted.entered += 1
            return super().__enter__()

    with counted() as nothing:
        assert nothing is None and not ON()
    assert counted()(lambda: ON())() is False
    assert counted.entered == 2 and ON()


def test_modes_are_each_threads_own():
    seen = []
    with brisk.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ON()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_leaving_what_was_not_entered_is_refused():
    with pytest.raises(RuntimeError, match="not entered"):
        brisk.no_grad().__exit__(None, None, None)
